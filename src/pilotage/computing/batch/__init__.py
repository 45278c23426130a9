"""Batch systems of which commands are the entrance: one adapter, and a profile of pure text for each kind."""

from .element import BatchElement
from .options import BatchOptions, SubmitOptions
from .profile import BatchJob, Profile, Request

__all__ = ["BatchElement", "BatchJob", "BatchOptions", "Profile", "Request", "SubmitOptions"]
