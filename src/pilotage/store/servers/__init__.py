"""Servers: their table, leases, measurements, and records on which a policy fails."""
