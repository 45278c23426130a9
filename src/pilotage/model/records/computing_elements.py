"""Computing elements: the ways into batch systems, their servers, and credentials of persons and groups."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.values.identity import Identity, IdentityName
from pilotage.model.values.types import CLOSED, Name, Options, Positive, Seconds, Slots

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00\n]*$", max_length=4000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One of several servers of the same batch system (P6)."""

    __pydantic_config__ = CLOSED

    name: Name
    """Its name in the records of its pilots."""
    options: Options = field(default_factory=dict)
    """Options of the adapter for this server. They override those of the computing element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerCredential:
    """A credential of a person, of a group, or of a person in a group, for a batch system (P7, P9)."""

    __pydantic_config__ = CLOSED

    vo: IdentityName = ""
    """The VO of the person or group."""
    person: IdentityName = ""
    """The person; empty: everybody in the group."""
    group: IdentityName = ""
    """The group; empty: the person in any group."""
    options: Options = field(default_factory=dict)
    """Options of the adapter that are credentials. They replace all of the common credential's."""

    @property
    def name(self) -> str:
        """Return the owner in words: the name of the credential in the records of pilots."""
        owner = (f"person {self.person}" if self.person else "", f"group {self.group}" if self.group else "")
        return " in ".join(filter(None, owner)) + (f" of {self.vo}" if self.vo else "")

    def serves(self, owner: Identity) -> bool:
        """Return whether an owner's private pilots may be submitted with it."""
        person, group = self.person or owner.name, self.group or owner.group
        return (self.vo, person, group) == (owner.vo, owner.name, owner.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputingElement:
    """The way into a batch system, for submitting pilots to a queue."""

    __pydantic_config__ = CLOSED

    kind: Name = "process"
    """The adapter for its batch system."""
    max_pilots: Positive = 10
    """Most live pilots there, waiting or running."""
    pilot_slots: Slots = 1
    """Payloads that one pilot runs at once."""
    pilot_walltime: Seconds = 172_800
    """s that a pilot requests."""
    containment: Literal["strongest", "required", "off"] = "strongest"
    """How payloads are contained: ``strongest`` uses the strongest way of each machine. ``required``
    refuses pilots whose machine has none. With ``off``, payloads see everything that the pilot's user may
    see."""
    readable_paths: tuple[AbsolutePath, ...] = ()
    """Paths that contained payloads may read besides the system, such as software or conditions data."""
    writable_paths: tuple[AbsolutePath, ...] = ()
    """Paths that contained payloads may also write to. All of them share these paths."""
    control_groups: bool = True
    """Whether payloads run in control groups, if the node lets pilots make them. Otherwise the agent
    watches the limits."""
    options: Options = field(default_factory=dict)
    """Options of the adapter."""
    servers: Annotated[tuple[Server, ...], Field(max_length=100)] = ()
    """Servers to submit to. One that fails is paused for some time (P6). None: the one in ``options``."""
    rank: Annotated[str, Field(max_length=500)] = ""
    """Sorts the servers, highest first: arithmetic over their reported ``slots``, ``running``, ``waiting``
    and ``free``, such as ``free - 2 * waiting`` (P6). Empty: random."""
    list_match: bool = False
    """Whether to ask the batch system first for resources for such a pilot (P8)."""
    pilot_kinds: Annotated[tuple[Literal["generic", "private"], ...], Field(min_length=1)] = (
        "generic",
        "private",
    )
    """Kinds of pilots that the site accepts (P7)."""

    credentials: Annotated[tuple[OwnerCredential, ...], Field(max_length=1000)] = ()
    """Credentials of persons and groups. Their private pilots are submitted with them; all other pilots with
    the common credential in ``options`` (P7, P9)."""

    def credential_of(self, owner: Identity) -> str:
        """Return the name of the credential for an owner's private pilots; empty: the common one.

        A person's comes before a group's.
        """
        serving = [credential for credential in self.credentials if credential.serves(owner)]
        return max(serving, key=lambda each: (bool(each.person), bool(each.group))).name if serving else ""

    def at(self, server: str, credential: str = "") -> "ComputingElement":
        """Return the element with one server's options, or with its own if no server has this name.

        The result has no credential but the named one, with which its adapter then acts. Raises LookupError
        if the element does not declare it.
        """
        chosen = tuple(each for each in self.credentials if credential and each.name == credential)
        if credential and not chosen:
            raise LookupError(
                f"the credential of {credential} is not declared: keep it until its last pilot has ended"
            )
        for declared in self.servers:
            if declared.name == server:
                options = {**self.options, **declared.options}
                return replace(self, options=options, servers=(), rank="", credentials=chosen)
        return replace(self, credentials=chosen)


def entrance_of(server: str, credential: str) -> str:
    """Return a server under a credential of a person or group; the server alone under the common one."""
    return f"{server}, {credential}" if server and credential else server or credential
