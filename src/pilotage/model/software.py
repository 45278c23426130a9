"""Requirements on software and hardware, and the syntax of a task's architecture (B14)."""

import re
from dataclasses import dataclass

_ARCHITECTURE = re.compile(
    r"(?P<platform>[^@#&\s]*)(@(?P<base>[^@#&\s]+))?(#(?P<cpu>[^@#&\s]+))?(&(?P<gpu>[^@#&\s]+))?"
)
_NOTHING = ("", "*")


class ArchitectureError(ValueError):
    """An architecture is not written as it should be."""


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
