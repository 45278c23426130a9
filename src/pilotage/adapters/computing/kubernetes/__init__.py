"""Pilots as Kubernetes Jobs: the computing element kind ``kubernetes``."""

from pilotage.adapters.computing.kubernetes.element import Kubernetes

__all__ = ["Kubernetes"]
