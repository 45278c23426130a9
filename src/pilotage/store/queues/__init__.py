"""The federation, its queues and sites: their tables and reads."""
