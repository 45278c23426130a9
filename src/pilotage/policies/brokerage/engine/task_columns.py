"""Attributes of job groups as columns of shape (T, 1), and the tables that connect tasks with queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilotage.model.circuit_breakers.breaker import Scope
from pilotage.model.rules.job_order import HIGH_PRIORITY
from pilotage.model.values.fairshare import FairshareWork
from pilotage.policies.brokerage.engine.arrays import Codes, Column, Mask
from pilotage.policies.brokerage.engine.job_ads import job_ad
from pilotage.policies.brokerage.engine.job_groups import Group, Placed
from pilotage.policies.brokerage.engine.nuclei import LinkTable
from pilotage.policies.brokerage.engine.offers import Container, Machine, Release
from pilotage.policies.brokerage.engine.plugin_options import VoPolicy
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.spec_table import SPEC_NUMBERS, Coded, SpecRows, SpecTable

URGENT_PRIORITY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTable:
    """One row per distinct set of a job's inputs, one column per storage: shapes (I, S).

    ``files`` and ``size`` (bytes) are (I, 1). A file on tape does not count as available (B33).
    ``unreadable`` marks storages where a missing file cannot be brought from any storage (B19). ``held_up``
    has the number, from 1, of the breaker that blocks a file on the way there; 0 means none (F4).
    """

    files: Column
    size: Column
    missing_files: Column
    missing_size: Column
    unreadable: Mask
    held_up: Codes

    @classmethod
    def of(cls, inputs: Sequence[tuple[Placed, ...]], queues: QueueColumns) -> "InputTable":
        """Return the rows of these inputs."""
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
            held_up=np.zeros((len(inputs), width), dtype=np.intp),
        )
        # Not `table[...] -= counts`: that would subtract only one of several parts of the input at a storage.
        np.subtract.at(table.missing_files, (rows, codes), counts)
        np.subtract.at(table.missing_size, (rows, codes), totals)
        table._mark_unreadable(inputs, queues)
        return table

    def _mark_unreadable(self, inputs: Sequence[tuple[Placed, ...]], queues: QueueColumns) -> None:
        for row, parts in enumerate(inputs):
            for holders, _, _ in parts:
                self.unreadable[row] |= ~queues.reach.of(holders)
        if breakers := queues.live.storage_breakers:
            different = {holders for parts in inputs for holders, _, _ in parts}
            held_up = {holders: queues.reach.held_up(holders, breakers) for holders in different}
            for row, parts in enumerate(inputs):
                for holders, _, _ in parts:
                    np.maximum(self.held_up[row], held_up[holders], out=self.held_up[row])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables behind the code columns of tasks: rows of arrays, and the distinct requests."""

    links: LinkTable
    input_table: InputTable
    preassigned: Mask
    departure_table: Mask
    policies: tuple[VoPolicy, ...]
    works: tuple[FairshareWork, ...]
    releases: tuple[Release, ...]
    containers: tuple[Container, ...]
    machines: tuple[Machine, ...]
    owners: tuple[Scope, ...]
    site_requests: tuple[Group, ...]


class TaskColumns:
    """One row per job group: columns of shape (T, 1).

    - ``nucleus``: row of ``links``; ``inputs``: row of ``input_table``; ``departures``: row of
      ``departure_table`` (D, Q); ``preassignment``: row of ``preassigned`` (P, Q), 0 for none.
    - ``policy``, ``work``, ``release``, ``container``, ``machine``: codes into their tables. ``owner``: code
      into scopes (F2). ``site_request``: code into groups with different job ads (M8).
    - ``together``: row of ``input_table`` for all jobs brokered together (B33). ``to_move``: the same row for
      I/O-intensive work, else a row without files (B11).
    - ``named``: true if the task names its queues.
    - ``base_memory``: MB per job. ``core_memory``: MB per core. ``cpu_work``: HS23 s of all cores.

    ``distinct`` returns only the requested columns, so that a check cannot read undeclared columns.
    """

    nucleus: Column
    inputs: Column
    together: Column
    to_move: Column
    preassignment: Column
    departures: Column
    named: Column
    gathered: Column
    policy: Column
    work: Column
    release: Column
    container: Column
    machine: Column
    owner: Column
    site_request: Column
    priority: Column
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
    has_secrets: Column

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
        self.departure_table = tables.departure_table
        # Set attributes for these columns only, so that a check fails if it reads an undeclared column.
        vars(self).update(columns)

    def __len__(self) -> int:
        return self._length

    @classmethod
    def of(
        cls, groups: Sequence[Group], queues: QueueColumns, specs: SpecTable | None = None
    ) -> "TaskColumns":
        """Return the columns of these groups, (T, 1), with one row per group.

        ``specs`` caches specifications between passes.
        """
        rows = (specs or SpecTable()).rows([group.spec for group in groups])
        policy = Coded.of(group.policy for group in groups)
        caps = Coded(tuple(options.constants.nqueued_sat_cap for options in policy.values), policy.codes)
        # Tasks of one owner are equal, except tasks with a breaker that concerns them alone (F2).
        closed_tasks = {breaker.whose[-1] for breaker in queues.live.breakers}
        owner = Coded.of(
            (task.owner.vo, task.owner.name, task.id if task.id in closed_tasks else 0)
            for task in (group.task for group in groups)
        )
        vos = Coded(tuple(vo for vo, *_ in owner.values), owner.codes)
        coded = {
            **{name: rows.coded[name] for name in ("release", "container", "machine")},
            "policy": policy,
            "nucleus": rows.coded["nucleus"].paired_with(caps),
            "inputs": Coded.of(
                [(), *(group.together for group in groups), *(group.inputs for group in groups)]
            ),
            "preassignment": Coded.of([((), ()), *((group.spec.queues, group.home) for group in groups)]),
            "departures": Coded.of([(), *(group.departures for group in groups)]),
            "work": _works(groups, queues),
            "owner": owner,
            "site_request": _site_requests(groups, queues),
        }
        # Tables may begin with other rows than the groups': no files, all files together, no pre-assignment.
        columns = {name: column.codes[-len(groups) :].reshape(-1, 1) for name, column in coded.items()}
        columns["together"] = coded["inputs"].codes[1 : len(groups) + 1].reshape(-1, 1)
        bounded = np.array([group.io_intensive for group in groups], dtype=bool).reshape(-1, 1)
        columns["to_move"] = np.where(bounded, columns["together"], 0)
        columns |= {"vo": _texts(vos), "ip_connectivity": _texts(rows.coded["ip_connectivity"])}
        values = {name: column.values for name, column in coded.items()}
        return cls(len(groups), columns | _attributes(groups, rows), _tables(values, queues))

    def part(self, rows: slice) -> "TaskColumns":
        """Return some of the rows, with the same columns and tables."""
        chosen = {name: column[rows] for name, column in self._columns.items()}
        return TaskColumns(len(range(*rows.indices(len(self)))), chosen, self.tables)

    def distinct(self, names: tuple[str, ...]) -> tuple["TaskColumns", Codes]:
        """Return the distinct rows of these columns, and for each row its index among them.

        Rows with different policies are distinct.
        """
        if names not in self._distinct:
            columns = names if len(self.tables.policies) == 1 else (*names, "policy")
            codes, kinds = np.zeros(len(self), dtype=np.intp), 1
            for name in columns:
                column_codes, number = self._numbered(name)
                # Renumber densely at every step, or products of several columns would exceed 64 bits.
                codes, kinds = _dense(codes * number + column_codes, kinds * number)
            first = np.zeros(kinds, dtype=np.intp)
            # Go backwards, so that the first of equal rows is written last.
            first[codes[::-1]] = np.arange(len(self))[::-1]
            chosen = {name: self._columns[name][first] for name in columns}
            self._distinct[names] = (TaskColumns(len(first), chosen, self.tables), codes)
        return self._distinct[names]

    def constant(self, name: str) -> Column:
        """Return a constant of the brokerage per row, (T, 1), or (1, 1) if all rows share it.

        None becomes NaN, which no number exceeds.
        """
        return self._by_policy([getattr(policy.constants, name) for policy in self.tables.policies], float)

    def switched_off(self, rule: str) -> Mask:
        """Return a mask of rows where a rule is switched off: (T, 1), or (1, 1) if all rows agree."""
        return self._by_policy([rule in policy.off for policy in self.tables.policies], bool)

    def _by_policy(self, values: list[Any], kind: Any) -> Column:
        column = _column(values, kind)
        return column if len(column) == 1 else column[self.policy[:, 0]]

    def _numbered(self, name: str) -> tuple[Codes, int]:
        """Return the values of a column by number, and how many distinct ones there are."""
        if name not in self._codes:
            column = self._columns[name][:, 0]
            if column.dtype.kind in "bi":
                # Flags and codes already are small numbers: sorting them would take most of the time.
                self._codes[name] = column.astype(np.intp, copy=False), int(column.max()) + 1
            else:
                values, codes = np.unique(column, return_inverse=True)
                self._codes[name] = codes, len(values)
        return self._codes[name]

    def cores_at(self, queues: QueueColumns) -> Column:
        """Return a job's cores at each queue, (T, 1) or (T, Q). 0 cores in the task mean the queue's
        cores."""
        if (self.cores > 0).all():
            return self.cores
        used: Column = np.where(self.cores > 0, self.cores, np.maximum(queues.cores, 1))
        return used

    def missing_files(self, queues: QueueColumns) -> Column:
        """Return the number of one job's input files missing at the queue's storage: (T, Q)."""
        return self.input_table.missing_files[self.inputs[:, 0]].take(queues.storage, axis=1)


def _dense(codes: Codes, bound: int) -> tuple[Codes, int]:
    """Return the same codes, all below ``bound``, numbered without gaps, and how many there are."""
    # Counting needs an element per possible code. Sorting is better if most codes are unused.
    if bound > 4 * len(codes):
        values, numbered = np.unique(codes, return_inverse=True)
        return numbered, len(values)
    there = np.zeros(bound, dtype=np.intp)
    there[codes] = 1
    numbers = np.cumsum(there)
    return numbers[codes] - 1, int(numbers[-1])


_NUMBERS = [name for name in SPEC_NUMBERS if name not in ("output_size", "work_disk")]


def _tables(values: Mapping[str, tuple[Any, ...]], queues: QueueColumns) -> Tables:
    """Return tables of the values behind the code columns."""
    return Tables(
        links=LinkTable.of(values["nucleus"], queues),
        input_table=InputTable.of(values["inputs"], queues),
        preassigned=np.array([_preassigned(names, home, queues) for names, home in values["preassignment"]]),
        departure_table=np.array([np.isin(range(len(queues)), codes) for codes in values["departures"]]),
        policies=values["policy"],
        works=values["work"],
        releases=values["release"],
        containers=values["container"],
        machines=values["machine"],
        owners=values["owner"],
        site_requests=values["site_request"],
    )


def _attributes(groups: Sequence[Group], rows: SpecRows) -> dict[str, Column]:
    kinds = np.array([group.kind for group in groups])
    priorities = np.array([group.priority for group in groups])
    merge = kinds == "merge"
    output = rows.numbers["output_size"]
    for row in np.flatnonzero(merge).tolist():
        output[row] = groups[row].output_size
    columns = {
        **{name: rows.numbers[name] for name in _NUMBERS},
        **rows.flags,
        "fixed_disk": output + rows.numbers["work_disk"],
        "scout": kinds == "scout",
        "normal": kinds == "normal",
        "merge": merge,
        "priority": priorities,
        "high": priorities >= HIGH_PRIORITY,
        "urgent": rows.flags["urgent"] | (priorities >= URGENT_PRIORITY),
        "prefers_nucleus": np.array(
            [group.policy.constants.high_priority == "prefer" for group in groups], dtype=bool
        ),
        "gathered": np.array([bool(group.home) for group in groups], dtype=bool),
    }
    return {name: column.reshape(-1, 1) for name, column in columns.items()}


def _column(values: list[Any], kind: Any) -> Column:
    return np.array(values, dtype=kind).reshape(-1, 1)


def _texts(coded: Coded) -> Column:
    """Return the values, one per row."""
    return np.array(coded.values, dtype=object)[coded.codes].reshape(-1, 1)


def _site_requests(groups: Sequence[Group], queues: QueueColumns) -> Coded:
    """Return one group for each distinct job ad that sites' own requirements may read, by code (M8)."""
    if not queues.live.site_ads:
        return Coded(tuple(groups[:1]), np.zeros(len(groups), dtype=np.intp))
    attributes = Coded.of(tuple(map(repr, job_ad(group).attributes.values())) for group in groups)
    first = np.unique(attributes.codes, return_index=True)[1]
    return Coded(tuple(groups[row] for row in first.tolist()), attributes.codes)


def _works(groups: Sequence[Group], queues: QueueColumns) -> Coded:
    """Return the distinct attributes that fair-share policies read, by code (B10)."""
    if not any(policy.entries for policy in queues.fairshare_kinds):
        return Coded((FairshareWork(),), np.zeros(len(groups), dtype=np.intp))
    # Priorities between two bounds are the same to every policy.
    bounds = sorted({bound for policy in queues.fairshare_kinds for bound in policy.priority_bounds})
    priorities = np.array([group.priority for group in groups])
    between = np.searchsorted(bounds, priorities) + np.searchsorted(bounds, priorities, side="right")
    coded = Coded.of(
        (
            group.spec.processing_type,
            group.spec.working_group or group.task.owner.group,
            group.share,
            -1 if group.kind == "merge" else place,
        )
        for group, place in zip(groups, between.tolist(), strict=True)
    )
    first = np.unique(coded.codes, return_index=True)[1]
    works = (
        FairshareWork(type=type_, group=of, gshare=share, priority=groups[row].priority, merge=place < 0)
        for (type_, of, share, place), row in zip(coded.values, first.tolist(), strict=True)
    )
    return Coded(tuple(works), coded.codes)


def _preassigned(names: Sequence[str], home: Sequence[int], queues: QueueColumns) -> Mask:
    """Return the named queues (pseudo-queues for a unified one, B2), and the queues at ``home`` for merging
    (B3)."""
    at_home = np.zeros(len(queues.storages), dtype=bool)
    at_home[list(home)] = True
    mask: Mask = at_home[queues.storage] & ~queues.unified
    for name in names:
        if name in queues.children:
            mask[list(queues.children[name])] = True
        elif name in queues.index:
            mask[queues.index[name]] = True
    return mask
