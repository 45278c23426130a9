"""Storages over SFTP."""
