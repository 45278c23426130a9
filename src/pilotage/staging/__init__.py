"""Data staging: which transfers run now, and what their end means.

Policies, all pure: ``slots`` gives the slots of a queue to shares and their transfers, ``preparing`` settles
sources, ``retries`` says what a delivery's end means for the transfer, ``settle`` what it means for the jobs.
"""
