"""How pilots reach the machines of a site: one port, and an adapter for each kind of computing element."""
