"""Options that all batch systems share. Each kind adds its own."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from pilotage.adapters.computing.options import PilotOptions, Word

SitePath = Annotated[str, Field(pattern=r"^(~|\$\w+)?(/[^\x00-\x1f\x7f]*)?$", min_length=1, max_length=1000)]
"""A path at the site. It may begin with ``~`` or a variable of the site: ``$SCRATCH/pilots``."""
Extra = Annotated[str, Field(pattern=r"^-[^\x00-\x1f\x7f]+$", max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions(PilotOptions):
    """Options of batch systems: where commands run, and what pilots need at the site.

    Every value is quoted wherever a shell sees it. Raises ValueError for an unknown option or a wrong value.
    """

    ssh: Annotated[str, Field(pattern=r"^([\w.@:%\[\]-]*[\w\]])?$", max_length=300)] = ""
    """The login node, as ``user@host:port`` or a name of ~/.ssh/config; empty: the server's own host."""
    ssh_config: SitePath = "~/.ssh/config"
    """The SSH client's configuration."""
    commands: Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$")] = ""
    """The directory of the batch system's commands, if it is not in the PATH."""
    spool: SitePath = "~/.pilotage"
    """A directory that login node and worker nodes share. Only the account can read it."""
    directory: SitePath = "$TMPDIR"
    """The worker node's directory for pilots. If its variable is not set there, pilots use /tmp."""
    python: Word = "python3"
    """The Python of worker nodes, 3.9 or newer."""
    tunnel: bool = False
    """Whether pilots reach the server through the SSH connection."""
    relay_host: Annotated[str, Field(pattern=r"^[\w.:-]*$")] = ""
    """The login node's name or address as seen by worker nodes; empty: its host name."""

    def __post_init__(self) -> None:
        if self.tunnel and not self.ssh:
            raise ValueError("tunnel needs ssh: the login node that the tunnel leads to")
        if self.ssh:
            ssh_address(self.ssh)
        PilotOptions.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions(BatchOptions):
    """The base of each batch system's own options.

    ``reserved`` are options of the submit command that the adapter sets, or that would change its output.
    ``flags`` are its options for ours that it gets as they are.
    """

    reserved: ClassVar[str] = ""
    flags: ClassVar[Mapping[str, str]] = {}

    extra: tuple[Extra, ...] = ()
    """More options of the submit command, each as one word that begins with a dash: ``--nice=100``."""

    def __post_init__(self) -> None:
        BatchOptions.__post_init__(self)
        for option in self.extra:
            name = option.partition("=")[0]
            is_long = name.startswith("--")
            for reserved in self.reserved.split():
                # A short option may have its value attached (-ofile), and a long one may be shortened.
                is_short = not is_long and not reserved.startswith("--") and name.startswith(reserved)
                if name == reserved or is_short or (is_long and reserved.startswith(name)):
                    raise ValueError(f"extra: {option!r} is an option that the adapter sets itself")

    def arguments(self) -> list[str]:
        """Return the submit command's arguments that come from these options alone."""
        words: list[str] = []
        for name, flag in self.flags.items():
            if value := getattr(self, name):
                words += [f"{flag}={value}"] if flag.startswith("--") else [flag, value]
        return [*words, *self.extra]


def ssh_address(name: str) -> tuple[str, str, int]:
    """Return user, host and port of ``user@host:port``. The SSH configuration supplies missing parts.

    A host in brackets, or with several colons, is an IPv6 address. Raises ValueError for anything else.
    """
    user, _, place = name.rpartition("@")
    if match := re.fullmatch(r"(?:\[([\da-fA-F:.]+)\]|([^:\[\]]+))(?::(\d{1,5}))?", place):
        host, port = match[1] or match[2], int(match[3] or 0)
        if match[3] is None or 0 < port < 65536:
            return user, host, port
    elif re.fullmatch(r"[\da-fA-F]*:[\da-fA-F:.]*:[\da-fA-F.]*", place):
        return user, place, 0
    raise ValueError(f"ssh: {name!r} is no user@host:port; an address of IPv6 with a port is [::1]:22")


def shell_path(path: str) -> str:
    """Return a ``SitePath`` as a shell word. The shell expands only its beginning."""
    first, slash, rest = path.partition("/")
    start = '"$HOME"' if first == "~" else f'"${{{first[1:]}:-/tmp}}"' if first else ""
    return start + (shlex.quote(slash + rest) if slash else "")
