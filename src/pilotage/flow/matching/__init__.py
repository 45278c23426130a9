"""Matches as one process makes them, and what it remembers between two."""
