"""Examine an installation: each check is one function, which tells what is wrong and what mends it."""
