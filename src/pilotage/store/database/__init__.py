"""Connections, transactions, bulk statements and errors: what SQLite and PostgreSQL have in common."""
