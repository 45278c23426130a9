"""The pilot agent as one file, ``agent.pyz``, and its command line, for every kind of batch system."""

import io
import shlex
import zipfile
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pilotage.agent import VERSION
from pilotage.ports.computing import PilotOrder
from pilotage.release import full_version

_START = "from agent.__main__ import main\n\nmain()\n"
_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a zip can hold. With it the same source always makes the same bytes."""


@cache
def agent_file() -> bytes:
    """Build the agent's file from the installed package: a zip that any Python 3.9 or newer can run."""
    modules = _modules(files("pilotage.agent"), "agent")
    modules["__main__.py"] = _START.encode()
    constant = f'VERSION = "{VERSION}"'.encode()
    package = modules["agent/__init__.py"]
    modules["agent/__init__.py"] = package.replace(constant, f'VERSION = "{full_version()}"'.encode())
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted(modules):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Unix, also where this is none
            # Stored, not deflated, so that every version of zlib makes the same bytes.
            archive.writestr(entry, modules[name], zipfile.ZIP_STORED)
    return b"#!/usr/bin/env python3\n" + content.getvalue()


def _modules(folder: Traversable, path: str) -> dict[str, bytes]:
    """Return the modules of a package, and of those in it, by their path."""
    modules: dict[str, bytes] = {}
    for file in folder.iterdir():
        if file.name.endswith(".py"):
            modules[f"{path}/{file.name}"] = file.read_bytes()
        elif file.is_dir() and file.name != "__pycache__":
            modules |= _modules(file, f"{path}/{file.name}")
    return modules


def agent_options(order: PilotOrder) -> list[str]:
    """Return the agent's options for an order. The token is not among them."""
    options = {
        "url": order.server_url,
        "cores": order.cores,
        "memory": order.memory,
        "walltime": order.walltime,
        "slots": order.slots,
    }
    switches = [] if order.control_groups else ["--no-control-groups"]
    return [*(f"--{name}={value}" for name, value in options.items()), *switches]


_FIND_PYTHON = """\
#!/bin/sh
for python in {python} python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    exec "$python" -I {arguments}
  fi
done
echo "$(uname -n) has no Python 3.9 or newer, which a pilot needs: name one with option python" >&2
exit 78
"""


def pilot_script(order: PilotOrder, python: str, *more: str) -> str:
    """Return a shell script that becomes this pilot.

    ``$0`` is the agent's file, ``more`` are further options.
    """
    return with_python(python, f'"$0" {shlex.join([*agent_options(order), *more])}')


def with_python(python: str, arguments: str) -> str:
    """Return a shell script that becomes the first Python that is new enough.

    ``arguments`` are shell words.
    """
    return _FIND_PYTHON.format(python=shlex.quote(python), arguments=arguments)


def pilot_file(order: PilotOrder, python: str, token_file: str) -> bytes:
    """Return one executable file that becomes this pilot: the script, followed by the agent.

    It holds no secret: it reads the token from ``token_file``, and removes that file. So batch systems need
    not pass arguments, which some of them would expand. The shell reads only the script; Python finds the zip
    at the end.
    """
    script = pilot_script(order, python, f"--token-file={token_file}", "--remove-token-file")
    return script.encode() + agent_file()
