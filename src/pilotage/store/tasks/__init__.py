"""Tasks and workflows: their tables and reads."""
