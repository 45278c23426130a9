"""The commit of matches, on either database."""
