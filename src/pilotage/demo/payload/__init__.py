"""Payloads of the demonstration: scripts of their own that know nothing of Pilotage."""
