"""What everything else is about: frozen records, the table of transitions, worlds and decisions.

Imports nothing else of the house. Units, everywhere: memory and work directory in MB, storage in GB,
files in bytes, times in seconds (points in time: seconds since 1970, UTC), throughput in MB/s, core power
in HS23 per core.
"""
