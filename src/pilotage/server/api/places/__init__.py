"""Routes of the federation, sites, queues and pilots."""
