"""Ways in which pilots contain payloads."""

COMPLETE = frozenset({"bubblewrap", "namespaces", "landlock"})
"""Ways that keep files and signals away from payloads. Any other keeps away less, or nothing."""
