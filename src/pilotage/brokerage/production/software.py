"""Software, containers and hardware: what tasks ask for and what queues publish (B14)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotage.model.federation import Federation, Hardware, Queue
from pilotage.model.software import parse_architecture
from pilotage.model.work import TaskSpec

ANY, AUTO = "ANY", "AUTO"
EVERYTHING = frozenset({"", "any"})
EXCLUSIVE = "excl"


@dataclass(frozen=True, slots=True)
class Release:
    """A release, cache or nightly, or only a platform; all empty where a task asks for none."""

    project: str
    version: str
    platform: str
    nightlies: bool

    def __str__(self) -> str:
        return " ".join(filter(None, (self.project, self.version, self.platform)))


@dataclass(frozen=True, slots=True)
class Container:
    """A container image by its name or path; empty where a task asks for none."""

    name: str
    only_tags: bool

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Machine:
    """Attributes of processors and accelerators with the values asked for; None asks for no such hardware."""

    cpu: tuple[tuple[str, str], ...] | None
    gpu: tuple[tuple[str, str], ...] | None

    def __str__(self) -> str:
        parts = [
            " ".join((kind, *(value for _, value in asked)))
            for kind, asked in (("cpu", self.cpu), ("gpu", self.gpu))
            if asked is not None
        ]
        return ", ".join(parts) or "no hardware in particular"


Request = tuple[Release, Container, Machine]


def request_of(spec: TaskSpec) -> Request:
    """What a task asks for. A container brings its own release. Raises ``ArchitectureError``."""
    asked = parse_architecture(spec.architecture)
    release = Release(spec.sw_project, spec.sw_version, asked.platform, spec.nightlies)
    none = Release("", "", "", False)
    return (
        none if spec.container_name else release,
        Container(spec.container_name, spec.only_tags),
        Machine(asked.cpu, asked.gpu),
    )


class Offer:
    """What queues of one description offer, ready to be asked."""

    def __init__(self, queue: Queue, sources: Mapping[str, tuple[str, ...]]) -> None:
        self._releases = frozenset(queue.releases)
        self._platforms = frozenset(queue.cmtconfigs)
        self._prefixes = queue.containers
        self._cvmfs = frozenset(queue.cvmfs)
        self._tags = frozenset((tag.cmtconfig, tag.project, tag.release) for tag in queue.tags)
        self._images = frozenset(name for tag in queue.tags for name in (tag.container_name, *tag.sources))
        self._hardware = {
            kind: [item for item in queue.architectures if item.type == kind] for kind in _KINDS
        }
        self._sources = sources
        self.releases = ", ".join(queue.releases)
        self.containers = ", ".join(queue.containers) or "no containers"
        self.hardware = "; ".join(map(_described, queue.architectures)) or "no hardware"

    def has_release(self, asked: Release) -> bool:
        """The release and its platform, on the queue's own system, in containers, or as a tag."""
        if not (asked.project or asked.version or asked.platform) or self._has_listed(asked):
            return True
        if AUTO not in self._releases:
            return False
        runs = self._runs_containers or asked.platform in self._platforms
        if not (asked.project or asked.version):
            return runs
        repository = "nightlies" if asked.nightlies else "atlas"
        if runs and not self._cvmfs.isdisjoint(("any", repository)):
            return True
        return "any" in self._prefixes and (asked.platform, asked.project, asked.version) in self._tags

    def has_container(self, asked: Container) -> bool:
        """The image as a tag; else any image, or one whose name or full path begins as the queue lists."""
        if not asked.name:
            return True
        if asked.only_tags:
            return asked.name in self._images
        paths = (asked.name, *self._sources.get(asked.name, ()))
        return self._runs_containers or any(path.startswith(self._prefixes) for path in paths)

    def has_hardware(self, asked: Machine) -> bool:
        """Processors and accelerators that have what is asked for, and are not only for those who ask."""
        return self._has_kind("cpu", asked.cpu) and self._has_kind("gpu", asked.gpu)

    @property
    def is_checked(self) -> bool:
        """Whether B14 applies: not where any release is there."""
        return ANY not in self._releases

    @property
    def _runs_containers(self) -> bool:
        return "any" in self._prefixes or "/cvmfs" in self._prefixes

    def _has_listed(self, asked: Release) -> bool:
        """Whether a queue that lists releases by name has this one; platforms it does not list."""
        listed = self._releases - {AUTO}
        if not listed:
            return False
        names = {asked.version, f"{asked.project}-{asked.version}"} if asked.version else {asked.project}
        return names == {""} or not names.isdisjoint(listed)

    def _has_kind(self, kind: str, asked: tuple[tuple[str, str], ...] | None) -> bool:
        there = self._hardware[kind]
        if not there:
            return asked is None
        return any(_serves(item, dict(asked or ())) for item in there)


_KINDS: Mapping[str, tuple[str, ...]] = {"cpu": ("arch", "vendor", "instr"), "gpu": ("vendor", "model")}


def _serves(item: Hardware, asked: Mapping[str, str]) -> bool:
    for attribute in _KINDS[item.type]:
        values: tuple[str, ...] = getattr(item, attribute)
        value = asked.get(attribute)
        if value is None and EXCLUSIVE in values:
            return False
        if value is not None and value not in values and EVERYTHING.isdisjoint(values):
            return False
    return True


def _described(item: Hardware) -> str:
    values = (getattr(item, attribute) for attribute in _KINDS[item.type])
    return " ".join((item.type, *(",".join(value) for value in values if value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The distinct descriptions of a federation's queues; ``code`` is each queue's, of shape (Q,)."""

    kinds: tuple[Offer, ...]
    code: NDArray[np.intp]

    @classmethod
    def of(cls, queues: Sequence[Queue], federation: Federation) -> "Offers":
        """The offers of these queues, in their order."""
        codes: dict[tuple[object, ...], int] = {}
        first: list[Queue] = []
        places = []
        for queue in queues:
            key = (
                queue.releases,
                queue.cmtconfigs,
                queue.containers,
                queue.cvmfs,
                queue.architectures,
                queue.tags,
            )
            if key not in codes:
                codes[key] = len(first)
                first.append(queue)
            places.append(codes[key])
        kinds = tuple(Offer(queue, federation.container_sources) for queue in first)
        return cls(kinds=kinds, code=np.array(places, dtype=np.intp))

    @property
    def are_checked(self) -> bool:
        """Whether B14 applies to any queue."""
        return any(kind.is_checked for kind in self.kinds)

    def without(self, answers: Sequence[Sequence[bool]]) -> NDArray[np.bool_]:
        """(T, Q) where the answer for a request (T) and kind of offer is no, and the kind is checked."""
        checked = np.array([kind.is_checked for kind in self.kinds], dtype=bool)
        mask: NDArray[np.bool_] = (~np.array(answers, dtype=bool) & checked)[:, self.code]
        return mask

    def texts(self, attribute: str) -> NDArray[Any]:
        """What each queue offers, in words: (Q,)."""
        return np.array([getattr(kind, attribute) for kind in self.kinds], dtype=object)[self.code]
