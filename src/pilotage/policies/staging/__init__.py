"""Data staging: choose the transfers to run now, and process their ends.

All policies are pure. ``slots`` gives a queue's slots to shares and their transfers, and ``preparing``
settles sources. After a delivery ends, ``retries`` decides on the transfer, and ``settle`` on the jobs.
"""
