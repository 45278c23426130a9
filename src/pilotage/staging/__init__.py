"""Data staging: which transfers run now, and what their end means.

Policies, all pure: ``shares`` gives slots to transfers, ``retries`` says what a delivery's end means for the
transfer, ``settle`` what it means for the jobs.
"""
