"""Software and hardware: what queues offer, and the syntax of the architecture that a task asks for (B14)."""

import re
from dataclasses import dataclass
from typing import Literal

from .types import CLOSED

_ARCHITECTURE = re.compile(
    r"(?P<platform>[^@#&\s]*)(@(?P<base>[^@#&\s]+))?(#(?P<cpu>[^@#&\s]+))?(&(?P<gpu>[^@#&\s]+))?"
)
_NOTHING = ("", "*")


class ArchitectureError(ValueError):
    """An architecture is not written as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Processors or accelerators of a queue's nodes: for each attribute the values it has (B14).

    ``excl`` among them takes only tasks that ask for one of them; an empty value or ``any`` accepts all. An
    attribute that is left out has nothing that could be asked for.
    """

    __pydantic_config__ = CLOSED

    type: Literal["cpu", "gpu"]
    """Processors or accelerators."""
    arch: tuple[str, ...] = ()
    """Architectures, such as ``x86_64``."""
    vendor: tuple[str, ...] = ()
    """Makers, such as ``intel``."""
    instr: tuple[str, ...] = ()
    """Instruction sets of processors, such as ``avx2``."""
    model: tuple[str, ...] = ()
    """Models of accelerators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A release or container image that a queue offers (B14)."""

    __pydantic_config__ = CLOSED

    cmtconfig: str = ""
    """Platform of the release."""
    container_name: str = ""
    """Name of the container image."""
    project: str = ""
    """Project of the release."""
    release: str = ""
    """Version of the release."""
    sources: tuple[str, ...] = ()
    """Full paths of the container image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """``sw_platform<@base_platform><#arch<-vendor<-instr>>><&vendor<-model>>`` taken apart.

    ``cpu`` and ``gpu`` pair each attribute with the value asked, only those that are asked; they are None
    where the architecture has no such part. ``*`` asks for nothing.
    """

    platform: str = ""
    base_platform: str = ""
    cpu: tuple[tuple[str, str], ...] | None = None
    gpu: tuple[tuple[str, str], ...] | None = None


def parse_architecture(text: str) -> Architecture:
    """The parts of a task's architecture. Raises :class:`ArchitectureError`."""
    match = _ARCHITECTURE.fullmatch(text)
    if match is None:
        form = "platform@base#arch-vendor-instr&vendor-model, every part optional"
        raise ArchitectureError(f"{text!r} is not an architecture; give {form}")
    return Architecture(
        platform=match["platform"],
        base_platform=match["base"] or "",
        cpu=_asked(match["cpu"], ("arch", "vendor", "instr")),
        gpu=_asked(match["gpu"], ("vendor", "model")),
    )


def _asked(text: str | None, attributes: tuple[str, ...]) -> tuple[tuple[str, str], ...] | None:
    if text is None:
        return None
    values = text.split("-", len(attributes) - 1)
    return tuple(
        (name, value) for name, value in zip(attributes, values, strict=False) if value not in _NOTHING
    )
