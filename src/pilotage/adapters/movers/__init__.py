"""Adapters that move bytes between storages, and scan and clear them."""
