"""Records and rules that every other package uses. This package imports no other.

Units are the same everywhere: memory and work directory in MB, storage in GB, files in bytes, durations in s,
moments in s since 1970 UTC, throughput in MB/s, core power in HS23 per core.
"""
