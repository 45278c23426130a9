"""Calls of pilots."""
