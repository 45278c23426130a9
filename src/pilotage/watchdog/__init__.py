"""Time-outs: move on what has waited too long or has gone silent."""
