"""The loops that run the steps: what wakes each, what it reads, and what it sets aside."""
