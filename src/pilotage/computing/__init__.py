"""Adapters of batch systems: a module here, or somebody else's package, for each kind."""
