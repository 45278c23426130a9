"""Routes of files, datasets, storages and transfers."""
