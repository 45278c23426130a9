"""What has waited too long, or has gone silent, moves on."""
