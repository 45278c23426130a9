"""Servers: their table, leases, measurements, and records that make a policy fail."""
