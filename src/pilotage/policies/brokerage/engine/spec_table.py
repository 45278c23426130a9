"""Task specifications as rows of numbers and codes, kept between passes."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotage.model.records.work import JobKind, Measured, Task, TaskSpec
from pilotage.model.values.software import parse_architecture
from pilotage.policies.brokerage.engine.offers import request_of

LEAST_OUTPUT = 500.0
"""Least output in MB that B17 assumes (0.5 GB)."""

MOST_ROWS = 20_000
"""Most cached specifications. With more, the cache is emptied."""

SPEC_NUMBERS = (
    "cores",
    "max_cores",
    "gpus",
    "base_memory",
    "core_memory",
    "output_size",
    "work_disk",
    "walltime",
    "cpu_work",
    "most_cpu_work",
    "base_time",
    "disk_io",
    "t1_weight",
)
SPEC_FLAGS = (
    "premerged",
    "urgent",
    "walltime_known",
    "direct_only",
    "copies",
    "outputs",
    "named",
    "event_service",
    "has_secrets",
)
CODED = ("release", "container", "machine", "nucleus", "ip_connectivity")
"""Attributes with values that many specifications share."""


@dataclass(frozen=True, slots=True)
class Coded:
    """The distinct values in order of appearance, and the index of each row's (T,) value."""

    values: tuple[Any, ...]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Coded":
        """Number these values, one per row."""
        places: dict[Any, int] = {}
        codes = [places.setdefault(value, len(places)) for value in values]
        return cls(tuple(places), np.array(codes, dtype=np.intp))

    @classmethod
    def chosen(cls, values: Sequence[Any], codes: NDArray[np.intp]) -> "Coded":
        """Number the used values, given indexes into a longer list of distinct values."""
        if len(values) > 4 * len(codes):
            # Sorting the few used values is faster than checking every value.
            used, codes = np.unique(codes, return_inverse=True)
            values = [values[place] for place in used.tolist()]
        first = np.full(len(values), len(codes))
        # Go backwards, so that the first of equal codes is written last.
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        there = np.flatnonzero(first < len(codes))
        there = there[np.argsort(first[there])]
        numbers = np.empty(len(values), dtype=np.intp)
        numbers[there] = np.arange(len(there))
        return cls(tuple(values[place] for place in there.tolist()), numbers[codes])

    def paired_with(self, factor: "Coded") -> "Coded":
        """Return the pairs of these values and others, row by row."""
        width = len(factor.values)
        if width == 1:
            return Coded(tuple((value, factor.values[0]) for value in self.values), self.codes)
        pairs = [(first, second) for first in self.values for second in factor.values]
        return Coded.chosen(pairs, self.codes * width + factor.codes)


@dataclass(frozen=True, slots=True)
class SpecRows:
    """Columns over some specifications: numbers and flags (T,) by name, values by code."""

    numbers: Mapping[str, NDArray[np.float64]]
    flags: Mapping[str, NDArray[np.bool_]]
    coded: Mapping[str, Coded]


class SpecTable:
    """A cache of the requests in specifications, by object: the store returns the same objects in each pass.

    The result depends only on the requested rows, not on earlier passes. It is safe for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        # Keep the objects too: while they live, no other object has the same ``id``.
        self._places: dict[int, tuple[int, TaskSpec]] = {}
        self._expected: dict[tuple[int, JobKind, Measured | None], tuple[TaskSpec, TaskSpec]] = {}
        self._changed: dict[tuple[int, str, bool], tuple[TaskSpec, TaskSpec]] = {}
        self._numbers = np.zeros((0, len(SPEC_NUMBERS)))
        self._flags = np.zeros((0, len(SPEC_FLAGS)), dtype=bool)
        self._codes = np.zeros((0, len(CODED)), dtype=np.intp)
        self._values: tuple[dict[Any, int], ...] = tuple({} for _ in CODED)
        self._listed: tuple[list[Any], ...] = tuple([] for _ in CODED)

    def changed(self, task: Task, changes: str, kind: JobKind) -> Task:
        """Return the task with changes of its jobs, always with the same specification object."""
        if not changes:
            return task
        key = (id(task.spec), changes, kind == "merge")
        with self._lock:
            if key not in self._changed:
                if len(self._changed) >= MOST_ROWS:
                    self._clear()
                self._changed[key] = task.spec, task.changed(changes, kind).spec
            spec = self._changed[key][1]
        return replace(task.changed(changes, kind), spec=spec)

    def expected(self, task: Task, kind: JobKind) -> TaskSpec:
        """Return the specification of a task's jobs of a kind, always the same object; see ``Task``."""
        if task.measured is None and kind != "merge":
            return task.spec
        key = (id(task.spec), kind, task.measured)
        with self._lock:
            entry = self._expected.get(key)
            if entry is None:
                if len(self._expected) >= MOST_ROWS:
                    self._clear()
                entry = self._expected[key] = task.spec, task.expected(kind)
            return entry[1]

    def rows(self, specs: Sequence[TaskSpec]) -> SpecRows:
        """Return the rows of these specifications, in order."""
        with self._lock:
            keys = [id(spec) for spec in specs]
            new = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in self._places}
            if len(self._places) + len(new) > MOST_ROWS:
                self._clear()
                new = dict(zip(keys, specs, strict=True))
            if new:
                self._add(new)
            places = np.array([self._places[key][0] for key in keys], dtype=np.intp)
            numbers, flags, codes = (
                np.ascontiguousarray(table[places].T) for table in (self._numbers, self._flags, self._codes)
            )
            coded = dict(zip(CODED, map(Coded.chosen, self._listed, codes), strict=True))
        return SpecRows(
            numbers=dict(zip(SPEC_NUMBERS, numbers, strict=True)),
            flags=dict(zip(SPEC_FLAGS, flags, strict=True)),
            coded=coded,
        )

    def _add(self, new: Mapping[int, TaskSpec]) -> None:
        specs = new.values()
        numbers = np.array([_numbers(spec) for spec in specs], dtype=float)
        flags = np.array([_flags(spec) for spec in specs], dtype=bool)
        codes = np.array(
            [
                [
                    code_of.setdefault(value, len(code_of))
                    for code_of, value in zip(self._values, row, strict=True)
                ]
                for row in map(_coded, specs)
            ],
            dtype=np.intp,
        )
        self._listed = tuple(list(values) for values in self._values)
        self._numbers = np.concatenate([self._numbers, numbers])
        self._flags = np.concatenate([self._flags, flags])
        self._codes = np.concatenate([self._codes, codes])
        first = len(self._places)
        self._places |= {key: (first + place, spec) for place, (key, spec) in enumerate(new.items())}


def least_output(spec: TaskSpec) -> float:
    """Return the MB of a job's output, unless it merges: at least 0.5 GB (B17)."""
    return max(LEAST_OUTPUT, spec.out_disk * spec.least_events)


def _numbers(spec: TaskSpec) -> tuple[float, ...]:
    """Return the values of ``SPEC_NUMBERS``. A merge job's output is as large as its input."""
    has_cpu_time = spec.cpu_time > 0
    return (
        spec.cores,
        spec.max_cores,
        spec.gpus_used,
        spec.fixed_memory,
        spec.memory_per_core,
        least_output(spec),
        spec.work_disk,
        0 if has_cpu_time else spec.walltime,
        spec.cpu_time * spec.least_events / spec.cpu_efficiency if has_cpu_time else 0,
        spec.cpu_time * spec.events_per_job / spec.cpu_efficiency if has_cpu_time else 0,
        spec.base_time if has_cpu_time else 0,
        spec.disk_io,
        spec.t1_weight,
    )


def _flags(spec: TaskSpec) -> tuple[bool, ...]:
    """Return the values of ``SPEC_FLAGS``."""
    return (
        spec.merge is not None,
        "urgent" in spec.processing_type,
        spec.cpu_time > 0 or spec.walltime > 0,
        spec.direct_access_only,
        spec.copy_inputs,
        bool(spec.outputs),
        bool(spec.queues),
        spec.event_service,
        bool(spec.secrets),
    )


def _coded(spec: TaskSpec) -> tuple[Any, ...]:
    """Return the values of ``CODED``."""
    return (
        *request_of(spec, parse_architecture(spec.architecture)),
        spec.nucleus,
        spec.ip_connectivity,
    )
