"""The command line: what people type. Commands parse, ask the server or a pure policy, and print."""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# httpx imports its command line, with pygments and rich: a third of the time of a short command.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def _load_when_used(name: str) -> None:
    """Let a module that others import be loaded when they first use it.

    Python's own ``LazyLoader`` loads it at their ``import``, which reads the module's ``__spec__``.
    """
    stand_in, spec = ModuleType(name), find_spec(name)

    def attribute(member: str) -> Any:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), member)

    if name not in sys.modules and spec is not None:
        stand_in.__spec__, stand_in.__path__ = spec, spec.submodule_search_locations or []
        stand_in.__getattr__ = attribute  # type: ignore[method-assign]
        sys.modules[name] = stand_in


# httpx needs it for host names beyond ASCII alone, and its tables take long.
_load_when_used("idna")


def main() -> None:
    """The ``pilotage`` command."""
    # A short command makes little garbage, but its modules make many objects to look through.
    gc.set_threshold(50_000)
    from pilotage.cli.app import app

    app()
