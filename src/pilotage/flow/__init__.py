"""The path of a job, one short file per step, and the loops that run the steps.

In order: ``submit``, ``split``, ``broker``, ``stage``, ``provision``, ``match``, ``report``, ``finish``;
beside the way: ``lift``, ``watch``, ``cancel``, ``priorities``. Every step takes a snapshot, asks a pure
policy, and commits the changes that are still valid.
"""
