"""Routes of servers, people, tokens and metrics."""
