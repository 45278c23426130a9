"""Batch systems that are used through commands: one adapter, and a profile of pure text functions per
kind."""

from .element import BatchElement
from .options import BatchOptions, SubmitOptions
from .profile import BatchJob, Profile, Request

__all__ = ["BatchElement", "BatchJob", "BatchOptions", "Profile", "Request", "SubmitOptions"]
