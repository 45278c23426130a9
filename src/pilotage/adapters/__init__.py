"""Adapters to batch systems, storages, catalogues and receivers of notifications."""
