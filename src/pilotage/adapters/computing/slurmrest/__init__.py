"""Slurm through its REST service, for sites where neither its commands nor a login node can be reached."""

from pilotage.adapters.computing.slurmrest.element import SlurmRest

__all__ = ["SlurmRest"]
