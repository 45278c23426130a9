"""The tables, one noun a file: columns, rows, and how they are written and read."""
