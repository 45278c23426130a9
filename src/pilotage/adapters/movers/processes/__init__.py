"""Threads and processes in which movers work."""
