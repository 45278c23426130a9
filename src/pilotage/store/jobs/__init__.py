"""Jobs, their counts, failures and logs: tables, and what is read of them."""
