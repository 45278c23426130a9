"""Pilots in a queue of an HTCondor pool or an HTCondor-CE: the computing element kind ``htcondor``."""

from .element import HTCondor

__all__ = ["HTCondor"]
