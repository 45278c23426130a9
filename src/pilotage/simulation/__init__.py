"""Simulation: the real steps on a virtual clock, with virtual sites and transfers.

The steps do not know about it.
"""
