"""The tables, one noun per file: columns, rows, reading and writing."""
