"""Commands on the federation, sites, queues and pilots."""
