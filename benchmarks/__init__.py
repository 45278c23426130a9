"""Figures that a reader can make again: ``make bench``."""
