"""The commit of matches, on both databases."""
