"""Parsl runs apps as jobs of Pilotage: ``Config(executors=[PilotageExecutor()])``."""

from .executor import PilotageExecutor
from .staging import PilotageStaging

__all__ = ["PilotageExecutor", "PilotageStaging"]
