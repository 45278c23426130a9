"""Ports: what steps need of the outside. Adapters implement them, and a runtime hands them to the steps."""
