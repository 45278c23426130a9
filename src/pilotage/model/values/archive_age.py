"""The minimum age of archived records."""

LEAST_ARCHIVE_DAYS = 7
"""Days between a record's end and its archiving. Guards and passes look back no further."""
