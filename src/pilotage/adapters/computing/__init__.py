"""Adapters of batch systems. Each kind is a module here, or a package of another author."""
