"""Records that every other package uses: work, states, worlds, decisions, and facts that several packages
share.

This package imports no other package. Units, everywhere: memory and work directory in MB, storage in GB,
files in bytes, times in seconds (points in time: seconds since 1970, UTC), throughput in MB/s, core power in
HS23 per core.
"""
