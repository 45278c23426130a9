"""Units of time in s."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
