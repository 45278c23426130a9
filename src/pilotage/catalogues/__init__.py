"""Catalogues that others keep, each an adapter found by its entry point; none knows more than its port."""
