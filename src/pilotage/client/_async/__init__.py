"""The source of both clients. ``hatch_build.py`` makes ``_sync`` from it."""
