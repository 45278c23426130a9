"""Pilotage: a workload broker for federated computing."""
