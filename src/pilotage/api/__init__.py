"""The HTTP API that people and pilots use. Routes authorise, call one step or query, and map its errors."""

from .app import PREFIX, create_app

__all__ = ["PREFIX", "create_app"]
