"""Tokens, secrets, notifications and shares of persons."""
