"""Web servers as storages."""
