"""A payload: its processes, their containment and their limits."""
