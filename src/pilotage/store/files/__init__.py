"""Files, datasets and publications: tables, and what is read of them."""
