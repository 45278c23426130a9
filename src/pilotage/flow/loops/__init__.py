"""The loops that take the steps: when each is woken, what it reads, and what it sets aside."""
