"""The HTTP API that people and pilots use. Routes authorise, call one step or query, and map its errors."""

from .app import create_app
from .dependencies import PREFIX

__all__ = ["PREFIX", "create_app"]
