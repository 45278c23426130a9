"""The history of the tables."""
