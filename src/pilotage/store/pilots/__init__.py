"""Pilots: their table and reads."""
