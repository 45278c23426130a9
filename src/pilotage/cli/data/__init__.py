"""Commands on files, datasets, storages and transfers."""
