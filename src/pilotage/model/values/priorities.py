"""Priorities of jobs where rules change."""

HIGH_PRIORITY = 800
"""From here on jobs are urgent to their owners: they stay at the nucleus (B8), and have shorter waits (T)."""
