"""The page: server-drawn views of what the API tells, for browsers."""

from .app import make_pages
from .sessions import OneTimeCode

__all__ = ["OneTimeCode", "make_pages"]
