"""What writes the reference pages, by subject."""
