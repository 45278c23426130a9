"""Files, datasets and publications: their tables and reads."""
