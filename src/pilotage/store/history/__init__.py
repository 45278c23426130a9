"""What happened, and why: histories, events, decisions."""
