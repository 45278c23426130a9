"""The steps of a job's way, one file each, taken by loops."""
