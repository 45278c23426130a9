"""Brokerage plugins, loaded once for each set of options."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from pilotage import brokerage
from pilotage.model.records.federation import Federation


class Brokerages:
    """Keeps loaded plugins: what one made of a federation serves the next pass too."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: dict[str, tuple[Mapping[str, Any], brokerage.Brokerage]] = {}

    def get(self, name: str, options: Mapping[str, Any]) -> brokerage.Brokerage:
        """The plugin of this name with these options. Raises ``brokerage.PluginError``."""
        known = self._loaded.get(name)
        if known is not None and known[0] == options:
            return known[1]
        # Outside the lock: one that takes for ever to load keeps no other from being found.
        made = brokerage.load(name, options)
        with self._lock:
            known = self._loaded.get(name)
            if known is None or known[0] != options:
                known = self._loaded[name] = (options, made)
            return known[1]

    def of(self, federation: Federation, name: str) -> brokerage.Brokerage:
        """The plugin of this name with the options of a federation. Raises ``brokerage.PluginError``."""
        return self.get(name, federation.plugin_options.get(name, {}))
