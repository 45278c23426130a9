"""Pilots: their table, and what is read of them."""
