"""What the demonstration's jobs run: scripts of their own that know nothing of Pilotage."""
