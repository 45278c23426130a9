"""Catalogues that others keep. Each is an adapter found by entry point, and knows only its port."""
