"""Pure functions of a world: each decides one thing."""
