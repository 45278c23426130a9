"""What belongs to persons: tokens, secrets, notifications, shares."""
