"""Frozen records: work, the federation, and what was observed."""
