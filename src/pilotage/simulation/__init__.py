"""Simulation: the real steps on a virtual clock, with virtual sites and transfers. No step knows of it."""
