"""Calls on files, datasets and storages."""
