"""Transfers and storages: tables, and what is read of them."""
