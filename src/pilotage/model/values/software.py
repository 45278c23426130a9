"""Software and hardware: queues' offers, and the syntax of the architecture in a task's request (B14)."""

import re
from dataclasses import dataclass
from typing import Literal

from pilotage.model.values.types import CLOSED

_ARCHITECTURE = re.compile(
    r"(?P<platform>[^@#&\s]*)(@(?P<base>[^@#&\s]+))?(#(?P<cpu>[^@#&\s]+))?(&(?P<gpu>[^@#&\s]+))?"
)
_NOTHING = ("", "*")


class ArchitectureError(ValueError):
    """An architecture has invalid syntax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Processors or accelerators of a queue's nodes: the values of each attribute (B14).

    With ``excl`` it accepts only tasks that request one of them. An empty value or ``any`` accepts all. A
    missing attribute matches no request.
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
    """The parts of ``sw_platform<@base_platform><#arch<-vendor<-instr>>><&vendor<-model>>``.

    ``cpu`` and ``gpu`` pair each requested attribute with its value. They are None if the architecture has no
    such part. ``*`` requests nothing.
    """

    platform: str = ""
    base_platform: str = ""
    cpu: tuple[tuple[str, str], ...] | None = None
    gpu: tuple[tuple[str, str], ...] | None = None


def parse_architecture(text: str) -> Architecture:
    """Return the parts of a task's architecture. Raises ``ArchitectureError``."""
    match = _ARCHITECTURE.fullmatch(text)
    if match is None:
        form = "platform@base#arch-vendor-instr&vendor-model, every part optional"
        raise ArchitectureError(f"{text!r} is not an architecture; give {form}")
    return Architecture(
        platform=match["platform"],
        base_platform=match["base"] or "",
        cpu=_attributes(match["cpu"], ("arch", "vendor", "instr")),
        gpu=_attributes(match["gpu"], ("vendor", "model")),
    )


def _attributes(text: str | None, attributes: tuple[str, ...]) -> tuple[tuple[str, str], ...] | None:
    if text is None:
        return None
    values = text.split("-", len(attributes) - 1)
    return tuple(
        (name, value) for name, value in zip(attributes, values, strict=False) if value not in _NOTHING
    )
