"""Dask's workers as jobs of Pilotage: ``PilotageCluster(n_workers=10, cores=2, memory="4 GB")``."""

from .cluster import PilotageCluster
from .workers import WorkerJob

__all__ = ["PilotageCluster", "WorkerJob"]
