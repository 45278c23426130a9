"""Split tasks into jobs, complete them, or cancel them."""
