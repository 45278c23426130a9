"""Calls on sites and queues."""
