"""The worlds of the steps, read as of one moment."""
