"""Steps of simulations see what they declare, and nothing else."""

from tests.watched_reads import _watched_steps

__all__ = ["_watched_steps"]
