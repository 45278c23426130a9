"""Attributes of groups of jobs as columns of shape (T, 1), and the tables that tie tasks to queues."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilotage.model.fairshare import FairshareWork
from pilotage.model.priorities import HIGH_PRIORITY
from pilotage.model.software import parse_architecture
from pilotage.model.work import TaskSpec

from .job_groups import Group, Placed
from .nuclei import LinkTable
from .offers import Container, Machine, Release, Request, request_of
from .options import VoPolicy
from .queue_columns import Codes, Column, Mask, QueueColumns

URGENT_PRIORITY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTable:
    """One row for each distinct set of inputs of a job, one column for each storage: shapes (I, S).

    ``files`` and ``size`` (bytes) are (I, 1). A file on tape does not count as available (B33).
    ``unreadable`` marks storages that miss a file which can be brought there from nowhere (B19).
    """

    files: Column
    size: Column
    missing_files: Column
    missing_size: Column
    unreadable: Mask

    @classmethod
    def of(cls, inputs: Sequence[tuple[Placed, ...]], queues: QueueColumns) -> "InputTable":
        """The rows of these inputs."""
        files = np.array([[sum(part[1] for part in parts)] for parts in inputs], dtype=float)
        size = np.array([[sum(part[2] for part in parts)] for parts in inputs], dtype=float)
        here = [
            (row, code, count, total)
            for row, parts in enumerate(inputs)
            for holders, count, total in parts
            for code in holders
            if not queues.storage_tape[code]
        ]
        numbers = np.array(here, dtype=float).reshape(-1, 4)
        (rows, codes), (counts, totals) = numbers[:, :2].T.astype(np.int64), numbers[:, 2:].T
        width = len(queues.storages)
        table = cls(
            files=files,
            size=size,
            missing_files=np.repeat(files, width, axis=1),
            missing_size=np.repeat(size, width, axis=1),
            unreadable=np.zeros((len(inputs), width), dtype=bool),
        )
        # Not `table[...] -= counts`, which would count a storage once that holds several parts of the input.
        np.subtract.at(table.missing_files, (rows, codes), counts)
        np.subtract.at(table.missing_size, (rows, codes), totals)
        table._mark_unreadable(inputs, queues)
        return table

    def _mark_unreadable(self, inputs: Sequence[tuple[Placed, ...]], queues: QueueColumns) -> None:
        for row, parts in enumerate(inputs):
            for holders, _, _ in parts:
                self.unreadable[row] |= ~queues.reach.of(holders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables that code columns of tasks point into: rows of arrays, and the distinct requests."""

    links: LinkTable
    input_table: InputTable
    preassigned: Mask
    policies: tuple[VoPolicy, ...]
    works: tuple[FairshareWork, ...]
    releases: tuple[Release, ...]
    containers: tuple[Container, ...]
    machines: tuple[Machine, ...]
    owners: tuple[tuple[str, str], ...]


class TaskColumns:
    """One row for each of some groups of jobs: columns of shape (T, 1).

    ``nucleus``, ``inputs`` and ``preassignment`` are rows of ``links``, ``input_table`` and ``preassigned``
    (of shape (P, Q); row 0 is no pre-assignment), ``policy``, ``work``, ``release``, ``container`` and
    ``machine`` codes into the tables of these, ``owner`` into VOs and names.
    ``together`` is the row of ``input_table`` for all jobs that
    are brokered together, of I/O-intensive work only (B11). ``named`` is whether the task names its queues.
    Memory in MB: ``base_memory`` for a job, ``core_memory`` for each of its cores. ``cpu_work`` is in HS23
    seconds of all cores. What :meth:`distinct` returns has only the columns asked for,
    so that a check cannot read what it does not declare.
    """

    nucleus: Column
    inputs: Column
    together: Column
    preassignment: Column
    named: Column
    gathered: Column
    policy: Column
    work: Column
    release: Column
    container: Column
    machine: Column
    owner: Column
    high: Column
    scout: Column
    normal: Column
    merge: Column
    premerged: Column
    urgent: Column
    cores: Column
    max_cores: Column
    gpus: Column
    base_memory: Column
    core_memory: Column
    prefers_nucleus: Column
    fixed_disk: Column
    walltime_known: Column
    walltime: Column
    cpu_work: Column
    most_cpu_work: Column
    base_time: Column
    disk_io: Column
    direct_only: Column
    copies: Column
    ip_connectivity: Column
    vo: Column
    outputs: Column
    t1_weight: Column
    event_service: Column

    def __init__(
        self,
        length: int,
        columns: Mapping[str, Column],
        tables: Tables,
    ) -> None:
        self._length = length
        self._columns = columns
        self._codes: dict[str, tuple[Codes, int]] = {}
        self._distinct: dict[tuple[str, ...], tuple[TaskColumns, Codes]] = {}
        self.tables = tables
        self.links = tables.links
        self.input_table = tables.input_table
        self.preassigned = tables.preassigned
        # Attributes of this object alone: a check that reads a column it did not declare fails at once.
        vars(self).update(columns)

    def __len__(self) -> int:
        return self._length

    @classmethod
    def of(cls, groups: Sequence[Group], queues: QueueColumns) -> "TaskColumns":
        """The columns of these groups; (T, 1) whatever the number of jobs."""
        specs = [group.spec for group in groups]
        asked = _requests(specs)
        coded = {
            "policy": _codes([group.policy for group in groups]),
            "nucleus": _codes([(g.spec.nucleus, g.policy.constants.nqueued_sat_cap) for g in groups]),
            "inputs": _codes([*(group.together for group in groups), *(group.inputs for group in groups)]),
            "preassignment": _codes([((), ()), *((group.spec.queues, group.home) for group in groups)]),
            "work": _works(groups, queues),
            **{name: _coded(asked, part) for part, name in enumerate(("release", "container", "machine"))},
            "owner": _codes((group.task.owner.vo, group.task.owner.name) for group in groups),
        }
        # Tables may have rows in front that no group has as its own: the files together, and no pre-
        # assignment.
        rows = {name: codes[-len(groups) :].reshape(-1, 1) for name, (_, codes) in coded.items()}
        rows["together"] = coded["inputs"][1][: len(groups)].reshape(-1, 1)
        values = {name: found for name, (found, _) in coded.items()}
        tables = Tables(
            links=LinkTable.of(values["nucleus"], queues),
            input_table=InputTable.of(values["inputs"], queues),
            preassigned=np.array(
                [_preassigned(names, home, queues) for names, home in values["preassignment"]]
            ),
            policies=values["policy"],
            works=values["work"],
            releases=values["release"],
            containers=values["container"],
            machines=values["machine"],
            owners=values["owner"],
        )
        return cls(len(groups), _attributes(groups) | rows, tables)

    def part(self, rows: slice) -> "TaskColumns":
        """Some of the rows, with the same columns and tables."""
        chosen = {name: column[rows] for name, column in self._columns.items()}
        return TaskColumns(len(range(*rows.indices(len(self)))), chosen, self.tables)

    def distinct(self, names: tuple[str, ...]) -> tuple["TaskColumns", Codes]:
        """The distinct rows of these columns, and for each row of this table its row there.

        Rows of different policies differ too.
        """
        if names not in self._distinct:
            asked = names if len(self.tables.policies) == 1 else (*names, "policy")
            codes, kinds = np.zeros(len(self), dtype=np.intp), 1
            for name in asked:
                own, number = self._numbered(name)
                # Made dense at every step, or the products of several columns would pass 64 bits.
                codes, kinds = _dense(codes * number + own, kinds * number)
            first = np.zeros(kinds, dtype=np.intp)
            # Backwards, so that of equal rows the first one is written last.
            first[codes[::-1]] = np.arange(len(self))[::-1]
            chosen = {name: self._columns[name][first] for name in asked}
            self._distinct[names] = (TaskColumns(len(first), chosen, self.tables), codes)
        return self._distinct[names]

    def constant(self, name: str) -> Column:
        """A constant of the brokerage for each row, (T, 1), or (1, 1) where it is one for all.

        None is NaN, which no number exceeds.
        """
        return self._by_policy([getattr(policy.constants, name) for policy in self.tables.policies], float)

    def switched_off(self, rule: str) -> Mask:
        """Mask of the rows for which a rule is switched off: (T, 1), or (1, 1) where it is one for all."""
        return self._by_policy([rule in policy.off for policy in self.tables.policies], bool)

    def _by_policy(self, values: list[Any], kind: Any) -> Column:
        column = _column(values, kind)
        return column if len(column) == 1 else column[self.policy[:, 0]]

    def _numbered(self, name: str) -> tuple[Codes, int]:
        """The values of a column by number, and how many different ones there are."""
        if name not in self._codes:
            found, codes = np.unique(self._columns[name][:, 0], return_inverse=True)
            self._codes[name] = codes, len(found)
        return self._codes[name]

    def cores_at(self, queues: QueueColumns) -> Column:
        """Cores that a job uses at each queue, where the task says 0 those of the queue: (T, 1) or (T, Q)."""
        if (self.cores > 0).all():
            return self.cores
        used: Column = np.where(self.cores > 0, self.cores, np.maximum(queues.cores, 1))
        return used

    def missing_files(self, queues: QueueColumns) -> Column:
        """Input files of one job that are not at the queue's storage: (T, Q)."""
        return self.input_table.missing_files[self.inputs[:, 0]].take(queues.storage, axis=1)

    def missing_size(self, queues: QueueColumns) -> Column:
        """Bytes of these files: (T, Q)."""
        return self.input_table.missing_size[self.inputs[:, 0]].take(queues.storage, axis=1)


def _dense(codes: Codes, most: int) -> tuple[Codes, int]:
    """The same codes, which are below ``most``, numbered without gaps, and how many there are."""
    # Counting takes a place for each possible code: sorting is better where most of them do not occur.
    if most > 4 * len(codes):
        found, numbered = np.unique(codes, return_inverse=True)
        return numbered, len(found)
    there = np.zeros(most, dtype=np.intp)
    there[codes] = 1
    numbers = np.cumsum(there)
    return numbers[codes] - 1, int(numbers[-1])


_NUMBERS = (
    "cores",
    "max_cores",
    "gpus",
    "base_memory",
    "core_memory",
    "fixed_disk",
    "walltime",
    "cpu_work",
    "most_cpu_work",
    "base_time",
    "disk_io",
    "t1_weight",
)
_FLAGS = (
    "high",
    "scout",
    "normal",
    "merge",
    "premerged",
    "urgent",
    "prefers_nucleus",
    "walltime_known",
    "direct_only",
    "copies",
    "outputs",
    "named",
    "gathered",
    "event_service",
)


def _attributes(groups: Sequence[Group]) -> dict[str, Column]:
    numbers = np.array([_numbers(group) for group in groups], dtype=float)
    flags = np.array([_flags(group) for group in groups], dtype=bool)
    return {
        **{name: np.ascontiguousarray(numbers[:, [place]]) for place, name in enumerate(_NUMBERS)},
        **{name: np.ascontiguousarray(flags[:, [place]]) for place, name in enumerate(_FLAGS)},
        "ip_connectivity": _column([group.spec.ip_connectivity for group in groups], object),
        "vo": _column([group.task.owner.vo for group in groups], object),
    }


def _numbers(group: Group) -> tuple[float, ...]:
    """The values of ``_NUMBERS``."""
    spec = group.spec
    known = spec.cpu_time > 0
    return (
        spec.cores,
        spec.max_cores,
        spec.gpus,
        spec.fixed_memory,
        spec.memory_per_core,
        group.output_size + spec.work_disk,
        0 if known else spec.walltime,
        spec.cpu_time * spec.least_events / spec.cpu_efficiency if known else 0,
        spec.cpu_time * spec.events_per_job / spec.cpu_efficiency if known else 0,
        spec.base_time if known else 0,
        spec.disk_io,
        spec.t1_weight,
    )


def _flags(group: Group) -> tuple[bool, ...]:
    """The values of ``_FLAGS``."""
    spec, priority = group.spec, group.priority
    return (
        priority >= HIGH_PRIORITY,
        group.kind == "scout",
        group.kind == "normal",
        group.kind == "merge",
        spec.merge is not None,
        priority >= URGENT_PRIORITY or "urgent" in spec.processing_type,
        group.policy.constants.high_priority == "prefer",
        spec.cpu_time > 0 or spec.walltime > 0,
        spec.direct_access_only,
        spec.copy_inputs,
        bool(spec.outputs),
        bool(spec.queues),
        bool(group.home),
        spec.event_service,
    )


def _column(values: list[Any], kind: Any) -> Column:
    return np.array(values, dtype=kind).reshape(-1, 1)


def _codes(values: Iterable[Any]) -> tuple[tuple[Any, ...], Codes]:
    """The distinct values in the order in which they come, and for each value its place there."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return tuple(places), np.array(codes, dtype=np.intp)


def _requests(specs: Sequence[TaskSpec]) -> tuple[Sequence[Request], Codes]:
    """Software, containers and hardware asked for: the requests that differ, and which one each task has."""
    found, codes = _codes(
        (
            spec.sw_project,
            spec.sw_version,
            spec.architecture,
            spec.nightlies,
            spec.container_name,
            spec.only_tags,
        )
        for spec in specs
    )
    first = dict(zip(reversed(codes.tolist()), reversed(specs), strict=True))
    asking = [first[code] for code in range(len(found))]
    return [request_of(spec, parse_architecture(spec.architecture)) for spec in asking], codes


def _coded(asked: tuple[Sequence[Request], Codes], part: int) -> tuple[tuple[Any, ...], Codes]:
    """One part of the requests by code."""
    requests, codes = asked
    found, numbered = _codes(request[part] for request in requests)
    return found, numbered[codes]


def _works(groups: Sequence[Group], queues: QueueColumns) -> tuple[tuple[FairshareWork, ...], Codes]:
    """The attributes that any fair-share policy reads, by code (B10)."""
    if not any(policy.entries for policy in queues.fairshare_kinds):
        return (FairshareWork(),), np.zeros(len(groups), dtype=np.intp)
    reads_priority = any(policy.reads_priority for policy in queues.fairshare_kinds)
    found, codes = _codes(
        (
            group.spec.processing_type,
            group.spec.working_group or group.task.owner.group,
            group.share,
            group.priority if reads_priority and group.kind != "merge" else 0,
            reads_priority and group.kind == "merge",
        )
        for group in groups
    )
    works = (
        FairshareWork(type=type_, group=of, gshare=share, priority=priority, merge=merge)
        for type_, of, share, priority, merge in found
    )
    return tuple(works), codes


def _preassigned(names: Sequence[str], home: Sequence[int], queues: QueueColumns) -> Mask:
    """The named queues, a unified one standing for its pseudo-queues (B2); those at home for merging (B3)."""
    at_home = np.zeros(len(queues.storages), dtype=bool)
    at_home[list(home)] = True
    mask: Mask = at_home[queues.storage] & ~queues.unified
    for name in names:
        if name in queues.children:
            mask[list(queues.children[name])] = True
        elif name in queues.index:
            mask[queues.index[name]] = True
    return mask
