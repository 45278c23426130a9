"""Everything that writes: the commit of decisions, heartbeats, and the archive."""
