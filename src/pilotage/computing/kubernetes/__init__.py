"""Pilots as Kubernetes Jobs: the computing element kind ``kubernetes``."""

from .element import Kubernetes

__all__ = ["Kubernetes"]
