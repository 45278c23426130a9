"""Commands on servers, the store and people."""
