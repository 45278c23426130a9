"""Software, containers and hardware: tasks' requests and queues' offers (B14)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pilotage.model.records.federation import Federation, Hardware, Queue
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.software import Architecture

ANY, AUTO = "ANY", "AUTO"
EVERYTHING = frozenset({"", "any"})
EXCLUSIVE = "excl"
PROCESSORS = frozenset({"x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64"})
"""Architectures that the name of a software platform may begin with."""

MOST_ANSWERS = 10_000
"""Most cached answers to distinct requests; an answer takes a byte per description of queues."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release, cache or nightly, or only a platform. All are empty if a task requests none."""

    project: str
    version: str
    platform: str
    nightlies: bool

    def __str__(self) -> str:
        return " ".join(filter(None, (self.project, self.version, self.platform)))


@dataclass(frozen=True, slots=True)
class Container:
    """A container image by its name or path; empty if a task requests none.

    ``base_platform``, if given, is the system that the queue must be able to run inside containers.
    """

    name: str
    only_tags: bool
    base_platform: str = ""

    def __str__(self) -> str:
        return self.name or (f"containers for @{self.base_platform}" if self.base_platform else "")


@dataclass(frozen=True, slots=True)
class Machine:
    """Requested attributes of processors and accelerators; None means no request."""

    cpu: tuple[tuple[str, str], ...] | None
    gpu: tuple[tuple[str, str], ...] | None

    def __str__(self) -> str:
        parts = [
            " ".join((kind, *(value for _, value in attributes)))
            for kind, attributes in (("cpu", self.cpu), ("gpu", self.gpu))
            if attributes is not None
        ]
        return ", ".join(parts) or "no hardware in particular"


_NO_RELEASE = Release("", "", "", False)
SoftwareRequest = tuple[Release, Container, Machine]
Asked = Release | Container | Machine
Aspect = Literal["releases", "containers", "hardware"]


def request_of(spec: TaskSpec, architecture: Architecture) -> SoftwareRequest:
    """Return the software, container and hardware that a task requests, given its parsed architecture.

    A container brings its own release.
    """
    release = Release(spec.sw_project, spec.sw_version, architecture.platform, spec.nightlies)
    return (
        _NO_RELEASE if spec.container_name else release,
        Container(
            spec.container_name, spec.only_tags, "" if spec.container_name else architecture.base_platform
        ),
        Machine(processor_of(architecture), architecture.gpu),
    )


def processor_of(architecture: Architecture) -> tuple[tuple[str, str], ...] | None:
    """Return the requested processor.

    A platform such as ``x86_64-el9-gcc13-opt`` implies its architecture.
    """
    implied = architecture.platform.partition("-")[0]
    if implied not in PROCESSORS or "arch" in dict(architecture.cpu or ()):
        return architecture.cpu
    return (("arch", implied), *(architecture.cpu or ()))


class SoftwareOffer:
    """Software and hardware of all queues with one description (B14).

    ``is_checked`` is false for ANY: then software is not checked, but hardware is.
    """

    def __init__(self, queue: Queue, sources: Mapping[str, tuple[str, ...]]) -> None:
        self.is_checked = ANY not in queue.releases
        self.has_hardware_listed = bool(queue.architectures)
        self._is_published = AUTO in queue.releases
        self._listed = frozenset(queue.releases) - {AUTO}
        self._platforms = frozenset(queue.cmtconfigs)
        self._prefixes = queue.containers
        self._runs_containers = "any" in queue.containers or "/cvmfs" in queue.containers
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

    def has_release(self, release: Release) -> bool:
        """Return whether it has the release and platform: on its own system, in containers, or as a tag."""
        if not (release.project or release.version or release.platform) or self._has_listed(release):
            return True
        if not self._is_published:
            return False
        runs = self._runs_containers or release.platform in self._platforms
        if not (release.project or release.version):
            return runs
        repository = "nightlies" if release.nightlies else "atlas"
        if runs and not self._cvmfs.isdisjoint(("any", repository)):
            return True
        return "any" in self._prefixes and (release.platform, release.project, release.version) in self._tags

    def has_container(self, container: Container) -> bool:
        """Return whether it has the image: as a tag, or because it runs any image, or images with a prefix of
        this one's name or path."""
        if not container.name:
            return not container.base_platform or self._runs_containers
        if container.only_tags:
            return container.name in self._images
        paths = (container.name, *self._sources.get(container.name, ()))
        return self._runs_containers or any(path.startswith(self._prefixes) for path in paths)

    def has_hardware(self, machine: Machine) -> bool:
        """Return whether it has the requested processors and accelerators.

        Exclusive hardware serves only jobs that request it.
        """
        return self._has_kind("cpu", machine.cpu) and self._has_kind("gpu", machine.gpu)

    def _has_listed(self, release: Release) -> bool:
        """Return whether a queue that lists releases by name has this one. Platforms are not listed."""
        if not self._listed:
            return False
        names = (
            {release.version, f"{release.project}-{release.version}"}
            if release.version
            else {release.project}
        )
        return names == {""} or not names.isdisjoint(self._listed)

    def _has_kind(self, kind: str, request: tuple[tuple[str, str], ...] | None) -> bool:
        there = self._hardware[kind]
        if not there:
            # A queue that lists its hardware has no other accelerators, but may have other processors.
            return kind == "cpu" or request is None or not self.has_hardware_listed
        return any(_serves(item, dict(request or ())) for item in there)


_KINDS: Mapping[str, tuple[str, ...]] = {"cpu": ("arch", "vendor", "instr"), "gpu": ("vendor", "model")}


def _serves(item: Hardware, request: Mapping[str, str]) -> bool:
    for attribute in _KINDS[item.type]:
        values: tuple[str, ...] = getattr(item, attribute)
        value = request.get(attribute)
        if value in (None, EXCLUSIVE) and EXCLUSIVE in values:
            return False
        if attribute == "arch" and not values:
            continue  # unpublished, so unknown: do not refuse a platform that implies one
        if value is not None and value not in values and EVERYTHING.isdisjoint(values):
            return False
    return True


def _described(item: Hardware) -> str:
    values = (getattr(item, attribute) for attribute in _KINDS[item.type])
    return " ".join((item.type, *(",".join(value) for value in values if value)))


class Offers:
    """The distinct descriptions of a federation's queues, and the description of each queue."""

    def __init__(self, queues: Sequence[Queue], federation: Federation) -> None:
        first: dict[tuple[object, ...], tuple[int, Queue]] = {}
        codes = [first.setdefault(_description(queue), (len(first), queue))[0] for queue in queues]
        self._code = np.array(codes, dtype=np.intp)
        self._kinds = [SoftwareOffer(queue, federation.container_sources) for _, queue in first.values()]
        # One cache per object, not per class: the answers disappear with their federation.
        self._answers = lru_cache(maxsize=MOST_ANSWERS)(self._answer)
        self._software = any(kind.is_checked for kind in self._kinds)
        self._listed = any(kind.has_hardware_listed for kind in self._kinds)

    def is_checked(self, aspect: Aspect) -> bool:
        """Return whether any queue could lack this aspect."""
        return self._listed if aspect == "hardware" else self._software

    def without(self, aspect: Aspect, requests: Sequence[Asked]) -> NDArray[np.bool_]:
        """Return (T, Q): true if the queue is checked and does not offer the request (T)."""
        lacking: NDArray[np.bool_] = np.array([self._answers(aspect, request) for request in requests])
        return lacking[:, self._code]

    def texts(self, aspect: Aspect) -> NDArray[Any]:
        """Return the offer of each queue in words, (Q,)."""
        return np.array([getattr(kind, aspect) for kind in self._kinds], dtype=object)[self._code]

    def _answer(self, aspect: Aspect, request: Any) -> NDArray[np.bool_]:
        has = _HAS[aspect]
        always = aspect == "hardware"
        return np.array(
            [(always or kind.is_checked) and not has(kind, request) for kind in self._kinds], dtype=bool
        )


def _description(queue: Queue) -> tuple[object, ...]:
    return (
        queue.releases,
        queue.cmtconfigs,
        queue.containers,
        queue.cvmfs,
        queue.architectures,
        queue.tags,
    )


_HAS: Mapping[Aspect, Callable[[SoftwareOffer, Any], bool]] = {
    "releases": SoftwareOffer.has_release,
    "containers": SoftwareOffer.has_container,
    "hardware": SoftwareOffer.has_hardware,
}
