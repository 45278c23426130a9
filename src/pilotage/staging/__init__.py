"""Data staging: which transfers run now, what asks for them, what their end means, and who moves bytes.

Policies, all pure: ``requests`` asks for the inputs of brokered jobs, ``shares`` gives slots to transfers,
``retries`` says what a delivery's end means for the transfer, ``settle`` what it means for the jobs.
``movers`` is the port through which bytes move.
"""
