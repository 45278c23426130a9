"""Attributes of groups of jobs as columns of shape (T, 1), and the tables that tie tasks to queues."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilotage.model.fairshare import FairshareWork
from pilotage.model.priorities import HIGH_PRIORITY
from pilotage.model.software import parse_architecture

from .job_groups import Group, Placed
from .nuclei import LinkTable
from .offers import Container, Machine, Release, request_of
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


class TaskColumns:
    """One row for each of some groups of jobs: columns of shape (T, 1).

    ``nucleus``, ``inputs`` and ``preassignment`` are rows of ``links``, ``input_table`` and ``preassigned``
    (of shape (P, Q); row 0 is no pre-assignment), ``policy``, ``work``, ``release``, ``container`` and
    ``machine`` codes into the tables of these. ``together`` is the row of ``input_table`` for all jobs that
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
    high: Column
    scout: Column
    normal: Column
    merge: Column
    premerged: Column
    urgent: Column
    cores: Column
    max_cores: Column
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
        self._codes: dict[str, Codes] = {}
        self._distinct: dict[tuple[str, ...], tuple[TaskColumns, Codes]] = {}
        self.tables = tables
        self.links = tables.links
        self.input_table = tables.input_table
        self.preassigned = tables.preassigned
        vars(self).update(columns)

    def __len__(self) -> int:
        return self._length

    @classmethod
    def of(cls, groups: Sequence[Group], queues: QueueColumns) -> "TaskColumns":
        """The columns of these groups; (T, 1) whatever the number of jobs."""
        parsed = {text: parse_architecture(text) for text in {group.spec.architecture for group in groups}}
        requests = [request_of(group.spec, parsed[group.spec.architecture]) for group in groups]
        coded = {
            "policy": _codes(group.policy for group in groups),
            "nucleus": _codes((g.spec.nucleus, g.policy.constants.nqueued_sat_cap) for g in groups),
            "inputs": _codes([*(group.together for group in groups), *(group.inputs for group in groups)]),
            "preassignment": _codes([((), ()), *((group.spec.queues, group.home) for group in groups)]),
            "work": _codes(_works(groups, queues)),
            "release": _codes(request[0] for request in requests),
            "container": _codes(request[1] for request in requests),
            "machine": _codes(request[2] for request in requests),
        }
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
        )
        return cls(len(groups), _attributes(groups) | rows, tables)

    def distinct(self, names: tuple[str, ...]) -> tuple["TaskColumns", Codes]:
        """The distinct rows of these columns, and for each row of this table its row there.

        Rows of different policies differ too.
        """
        if names not in self._distinct:
            asked = names if len(self.tables.policies) == 1 else (*names, "policy")
            codes = np.zeros(len(self), dtype=np.intp)
            for name in asked:
                own = self._coded(name)
                codes = codes * (own.max() + 1) + own
                codes = np.unique(codes, return_inverse=True)[1] if len(asked) > 2 else codes
            _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
            chosen = {name: self._columns[name][first] for name in asked}
            self._distinct[names] = (TaskColumns(len(first), chosen, self.tables), inverse)
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

    def _coded(self, name: str) -> Codes:
        if name not in self._codes:
            self._codes[name] = np.unique(self._columns[name][:, 0], return_inverse=True)[1]
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


def _attributes(groups: Sequence[Group]) -> dict[str, Column]:
    specs = [group.spec for group in groups]
    return {
        "high": _column([group.priority >= HIGH_PRIORITY for group in groups], bool),
        "scout": _column([group.kind == "scout" for group in groups], bool),
        "normal": _column([group.kind == "normal" for group in groups], bool),
        "merge": _column([group.kind == "merge" for group in groups], bool),
        "premerged": _column([group.spec.merge is not None for group in groups], bool),
        "urgent": _column(
            ["urgent" in group.spec.processing_type or group.priority >= URGENT_PRIORITY for group in groups],
            bool,
        ),
        "cores": _column([spec.cores for spec in specs], float),
        "max_cores": _column([spec.max_cores for spec in specs], float),
        "base_memory": _column([spec.fixed_memory for spec in specs], float),
        "core_memory": _column([spec.memory_per_core for spec in specs], float),
        "prefers_nucleus": _column(
            [group.policy.constants.high_priority == "prefer" for group in groups], bool
        ),
        "fixed_disk": _column([group.output_size + group.spec.work_disk for group in groups], float),
        "walltime_known": _column([spec.cpu_time > 0 or spec.walltime > 0 for spec in specs], bool),
        "walltime": _column([0 if spec.cpu_time > 0 else spec.walltime for spec in specs], float),
        "cpu_work": _column(
            [spec.cpu_time * spec.least_events / spec.cpu_efficiency for spec in specs], float
        ),
        "most_cpu_work": _column(
            [spec.cpu_time * spec.events_per_job / spec.cpu_efficiency for spec in specs], float
        ),
        "base_time": _column([spec.base_time if spec.cpu_time > 0 else 0 for spec in specs], float),
        "disk_io": _column([spec.disk_io for spec in specs], float),
        "direct_only": _column([spec.direct_access_only for spec in specs], bool),
        "ip_connectivity": _column([spec.ip_connectivity for spec in specs], object),
        "vo": _column([group.task.owner.vo for group in groups], object),
        "outputs": _column([bool(spec.outputs) for spec in specs], bool),
        "named": _column([bool(group.spec.queues) for group in groups], bool),
        "gathered": _column([bool(group.home) for group in groups], bool),
        "event_service": _column([spec.event_service for spec in specs], bool),
        "t1_weight": _column([spec.t1_weight for spec in specs], float),
    }


def _column(values: list[Any], kind: Any) -> Column:
    return np.array(values, dtype=kind).reshape(-1, 1)


def _codes(values: Iterable[Any]) -> tuple[tuple[Any, ...], Codes]:
    """The distinct values in the order in which they come, and for each value its place there."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return tuple(places), np.array(codes, dtype=np.intp)


def _works(groups: Sequence[Group], queues: QueueColumns) -> list[FairshareWork]:
    """The attributes that any fair-share policy reads, for each group (B10)."""
    if not any(policy.entries for policy in queues.fairshare_kinds):
        return [FairshareWork()] * len(groups)
    reads_priority = any(policy.reads_priority for policy in queues.fairshare_kinds)
    return [
        FairshareWork(
            type=group.spec.processing_type,
            group=group.spec.working_group or group.task.owner.group,
            gshare=group.share,
            priority=group.priority if reads_priority and group.kind != "merge" else 0,
            merge=reads_priority and group.kind == "merge",
        )
        for group in groups
    ]


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
