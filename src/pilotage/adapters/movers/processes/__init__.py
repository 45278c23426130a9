"""Threads and processes of movers."""
