"""Jobs, their counts, failures and logs: their tables and reads."""
