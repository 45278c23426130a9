"""Calls: what people and pilots ask for, one file each."""
