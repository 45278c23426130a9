"""The source of both clients. ``make docs`` writes ``_sync`` from it."""
