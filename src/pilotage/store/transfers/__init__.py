"""Transfers and storages: their tables and reads."""
