"""Batch systems that are used through commands: one adapter, and a profile of pure text functions per
kind."""

from pilotage.adapters.computing.batch.element import BatchElement
from pilotage.adapters.computing.batch.options import BatchOptions, SubmitOptions
from pilotage.adapters.computing.batch.profile import BatchJob, Profile, Request

__all__ = ["BatchElement", "BatchJob", "BatchOptions", "Profile", "Request", "SubmitOptions"]
