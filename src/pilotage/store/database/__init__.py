"""Connections, transactions, statements in bulk, and errors: what SQLite and PostgreSQL have in common."""
