"""Batch systems of which commands are the entrance: one adapter, and a profile of pure text for each kind."""

from .element import BatchElement
from .options import BatchOptions, SubmitOptions
from .profile import Job, Profile, Request

__all__ = ["BatchElement", "BatchOptions", "Job", "Profile", "Request", "SubmitOptions"]
