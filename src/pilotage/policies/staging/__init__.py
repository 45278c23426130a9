"""Data staging: which transfers run now, and what follows from their end.

All policies are pure. ``slots`` gives a queue's slots to shares and their transfers, and ``preparing``
settles sources. ``retries`` decides what follows from a delivery's end for the transfer, ``settle`` for the
jobs.
"""
