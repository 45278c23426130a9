"""Payloads of the demonstration: independent scripts that know nothing of Pilotage."""
