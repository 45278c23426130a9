"""Pilots in a queue of an HTCondor pool or an HTCondor-CE: the computing element kind ``htcondor``."""

from pilotage.adapters.computing.htcondor.element import HTCondor

__all__ = ["HTCondor"]
