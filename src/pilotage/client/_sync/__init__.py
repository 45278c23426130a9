# Written by `make docs` from ../_async; do not edit.
"""The source of both clients. ``make docs`` writes ``_sync`` from it."""
