"""The least age of what is archived."""

LEAST_ARCHIVE_DAYS = 7
"""Days since its end before which nothing is archived: guards and passes look back no further."""
