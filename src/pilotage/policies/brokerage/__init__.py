"""Choose where jobs run: the plugin interface, with all types that a plugin's own ``decide`` needs."""

from pilotage.model.documents.decision import Candidates, Choice, Decision, Move, Ordering, Refusal
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.plugin import (
    Brokerage,
    OptionError,
    PluginError,
    PluginLackingError,
    PluginOptionsError,
    UnknownPluginError,
    load,
)

__all__ = [
    "Brokerage",
    "Candidates",
    "Choice",
    "Decision",
    "JobState",
    "Move",
    "OptionError",
    "Ordering",
    "PluginError",
    "PluginLackingError",
    "PluginOptionsError",
    "Refusal",
    "UnknownPluginError",
    "World",
    "load",
]
