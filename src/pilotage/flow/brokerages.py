"""Brokerage plugins, loaded once for each set of options, and how they bind jobs."""

import logging
from collections.abc import Mapping, Set
from threading import Lock
from typing import Any

from pilotage.flow.loops.time_limit import TimeLimit
from pilotage.model.records.borrowing import said_binding
from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import Binding, TaskSpec
from pilotage.model.rules.plugins import plugin_of
from pilotage.model.values.identity import Identity
from pilotage.policies import brokerage
from pilotage.policies.brokerage import Brokerage

log = logging.getLogger(__name__)

LOOKED_FOR_AGAIN = 600.0
"""Seconds after which a process looks for a missing plugin again."""


class Brokerages:
    """Keeps loaded plugins, so that the next pass can use their caches about a federation."""

    def __init__(self) -> None:
        self._left: frozenset[int] = frozenset()
        self._left_version, self._left_until = 0, 0.0
        self._lacking: dict[str, tuple[str, float]] = {}
        self._lock = Lock()
        self._loaded: dict[str, tuple[Mapping[str, Any], brokerage.Brokerage]] = {}

    def get(self, name: str, options: Mapping[str, Any]) -> brokerage.Brokerage:
        """Return the plugin with this name and these options. Raises ``brokerage.PluginError``."""
        entry = self._loaded.get(name)
        if entry is not None and entry[0] == options:
            return entry[1]
        # Outside the lock, so that a plugin that loads for ever does not block others.
        plugin = brokerage.load(name, options)
        with self._lock:
            entry = self._loaded.get(name)
            if entry is None or entry[0] != options:
                entry = self._loaded[name] = (options, plugin)
            return entry[1]

    def of(self, federation: Federation, name: str) -> brokerage.Brokerage:
        """Return the plugin with this name and a federation's options. Raises ``brokerage.PluginError``."""
        return self.get(name, federation.plugin_options.get(name, {}))

    @property
    def lacking(self) -> Mapping[str, str]:
        """Return the plugins that tasks asked for and this process lacks, each with the reason."""
        return {name: reason for name, (reason, _) in self._lacking.items() if reason}

    def lacks(self, federation: Federation, name: str, time: float, limit: TimeLimit | None = None) -> str:
        """Return why this process lacks a plugin that others may have; empty if it does not lack it.

        Log it once, and look again after ``LOOKED_FOR_AGAIN`` s. Pause as long if the plugin cannot be
        made, or not within the time ``limit``. But then it is not lacking: it would fail on every server.
        """
        reason, until = self._lacking.get(name, ("", 0.0))
        if time < until:
            return reason

        def load() -> object:
            return self.of(federation, name)

        try:
            limit.call(load) if limit else load()
        except brokerage.PluginLackingError as error:
            if not reason:
                log.warning("tasks of brokerage %s are left to servers that have it: %s", name, error)
            self._lacking[name] = str(error), time + LOOKED_FOR_AGAIN
            return str(error)
        except Exception:  # the step that lets it decide sets aside its tasks
            self._lacking[name] = "", time + LOOKED_FOR_AGAIN
            return ""
        self._lacking.pop(name, None)
        return ""

    def left_of(self, version: int, time: float) -> frozenset[int]:
        """Return the tasks left to others, for this version of the federation, until they are due again."""
        if version != self._left_version or time >= self._left_until:
            self._left, self._left_version = frozenset(), version
        return self._left

    def leave(self, tasks: Set[int], time: float) -> None:
        """Leave tasks to others."""
        if not self._left:
            self._left_until = time + LOOKED_FOR_AGAIN
        self._left |= tasks


def requested_binding(
    spec: TaskSpec, owner: Identity, federation: Federation, brokerages: Brokerages
) -> Binding | None:
    """Return the requested binding of a task's jobs; None if the federation's default applies.

    A brokerage that matches in cycles binds early in any case: it draws a site and counts its matches, so
    nothing may move a job between cycles (M4, M5, M7). Raises ``brokerage.PluginError``.
    """
    chosen = brokerages.of(federation, plugin_of(spec, owner.vo, federation))
    if waits_for_cycle(chosen):
        return "early"
    return said_binding(spec, owner, federation.binding, getattr(chosen, "binding", None))


def waits_for_cycle(chosen: Brokerage) -> bool:
    """Return whether a plugin matches in cycles and reconsiders nothing between them (M7)."""
    return bool(getattr(chosen, "waits_for_cycle", False))
