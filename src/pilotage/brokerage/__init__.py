"""Choose where jobs run: the plugin interface, the production brokerage, and the reasons."""

from .plugin import Brokerage, OptionError, PluginError, PluginOptionsError, UnknownPluginError, load

__all__ = ["Brokerage", "OptionError", "PluginError", "PluginOptionsError", "UnknownPluginError", "load"]
