"""The federation, its queues and sites: tables, and what is read of them."""
