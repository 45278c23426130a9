"""Pilots in a queue of HTCondor, of a pool or of an HTCondor-CE: the computing element kind ``htcondor``."""

from .element import HTCondor

__all__ = ["HTCondor"]
