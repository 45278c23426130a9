"""Calls: requests of people and pilots, one file each."""
