"""Calls on the federation, servers and people."""
