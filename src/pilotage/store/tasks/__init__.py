"""Tasks and workflows: their tables, and what is read of them."""
