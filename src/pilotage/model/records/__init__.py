"""Frozen records: work, the federation, and observations."""
