"""Choose where jobs run: the plugin interface, the production brokerage, and the reasons."""

from .plugin import (
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
    "OptionError",
    "PluginError",
    "PluginLackingError",
    "PluginOptionsError",
    "UnknownPluginError",
    "load",
]
