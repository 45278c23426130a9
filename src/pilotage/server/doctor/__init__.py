"""Examine an installation: each check is one function, which yields faults with their remedies."""
