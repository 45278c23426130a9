"""Facts that several packages share, each stated once."""
