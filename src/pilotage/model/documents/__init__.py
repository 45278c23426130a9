"""Worlds, decisions and reasons, and how they are stored and combined."""
