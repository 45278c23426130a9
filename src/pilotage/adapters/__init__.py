"""Whatever reaches out: batch systems, storages, catalogues, receivers of notifications."""
