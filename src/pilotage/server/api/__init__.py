"""The HTTP API that people and pilots use. Routes authorise, call one step or query, and map its errors."""

from pilotage.server.api.app import create_app
from pilotage.server.api.edge.dependencies import PREFIX

__all__ = ["PREFIX", "create_app"]
