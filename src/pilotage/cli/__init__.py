"""The command line: what people type. Commands parse, ask the server or a pure policy, and print."""

import gc
import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

# httpx imports a command line of its own, with pygments and rich: a third of the time of a short command.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def _load_when_used(name: str) -> None:
    """Let a module that others import be loaded when its first attribute is read."""
    spec = find_spec(name)
    if name not in sys.modules and spec is not None and spec.loader is not None:
        loader = spec.loader = LazyLoader(spec.loader)
        module = sys.modules[name] = module_from_spec(spec)
        loader.exec_module(module)


# httpx needs it for host names beyond ASCII alone, and its tables take long.
_load_when_used("idna")


def main() -> None:
    """The ``pilotage`` command."""
    # A short command makes little garbage, but its modules make many objects to look through.
    gc.set_threshold(50_000)
    from .app import app

    app()
