"""Facts that several rooms share, each stated once."""
