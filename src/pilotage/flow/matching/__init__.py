"""Matches in one process, and its caches."""
