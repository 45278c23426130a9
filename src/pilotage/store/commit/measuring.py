"""Measurements of one commit, which count only if it succeeds, and the attempts that it ends."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilotage.model.documents.decision import Creation, Move
from pilotage.model.records.data import File
from pilotage.model.records.failures import Failure, ending_of
from pilotage.model.records.measurements import (
    ATTEMPTS,
    EMPTY_PILOTS,
    ENDED_PILOTS,
    ENDED_TRANSFERS,
    FAILED_ATTEMPTS,
    JOB_RUNS,
    JOB_WAITS,
    TRANSFERRED_BYTES,
    Measurement,
)
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.states import AT_A_PILOT, DONE_JOBS, ENDED, LIVE, JobState, TransferState
from pilotage.model.records.use import CANCELLED, OTHER_LOSS, OUTPUT, STORAGE
from pilotage.model.values.durations import DAY
from pilotage.model.values.error_lines import last_line, telling_line
from pilotage.store.commit.working_set import ATTEMPT, ID, KEYS, MEASURED, PILOT, RAN, STARTED, TASK, Record
from pilotage.store.database.measurements import Measurements
from pilotage.store.jobs.counters import KEY_COLUMNS
from pilotage.store.jobs.ended_attempts import NewAttempt

_DONE = (JobState.FINISHED, JobState.MERGING)
_UNSTORED = (JobState.HOLDING, JobState.TRANSFERRING)
_PLACES = {kind: {name: KEYS + place for place, name in enumerate(KEY_COLUMNS[kind])} for kind in KEY_COLUMNS}
_RETRIED = "retried"


class CommitMeasurements:
    """The sums of one commit, and the attempts that ``ended`` in it. ``time`` is in s since 1970 UTC."""

    def __init__(self, time: float) -> None:
        self._time = time
        self.own = Measurements()
        self.ended: list[NewAttempt] = []

    def moved(self, move: Move, rows: Sequence[Record]) -> None:
        """Measure records before they move. They still have their former queue, share and other labels."""
        if move.kind == "job":
            self._jobs(move, rows)
        elif move.kind == "transfer":
            is_retried = (move.source, move.target) == (TransferState.DELIVERING, TransferState.QUEUED)
            if is_retried or move.target in ENDED["transfer"]:
                state = _RETRIED if is_retried else str(move.target)
                self._count(ENDED_TRANSFERS, _labels("transfer", rows, "source", "destination"), state)
        elif move.kind == "pilot" and move.target in ENDED["pilot"]:
            self._count(ENDED_PILOTS, _labels("pilot", rows, "queue"), str(move.target))
            self._count(EMPTY_PILOTS, _labels("pilot", [row for row in rows if not row[MEASURED]], "queue"))

    def count_transferred(self, sizes: Mapping[tuple[str, str], float]) -> None:
        """Count the bytes of finished transfers, by source and destination."""
        for ends, size in sizes.items():
            self.own.count(TRANSFERRED_BYTES, ends, size)

    def _jobs(self, move: Move, rows: Sequence[Record]) -> None:
        if move.target is JobState.RUNNING:
            for row in rows:
                if row[ATTEMPT] == 1:
                    self.own.observe(JOB_WAITS, (_of("job", row, "share"),), self._time - row[MEASURED])
        if move.target is JobState.FAILED or (move.next_attempt and "error" in move.changes):
            self._failures(move, rows)
        if move.source in AT_A_PILOT and move.target not in AT_A_PILOT:
            self._runs(move, rows)
            self._used(move, rows)
        if move.source in _UNSTORED and move.target in (JobState.FAILED, JobState.CANCELLED, JobState.CLOSED):
            self._lost(move, rows)
        # A job that waits for a merge has succeeded: do not count the end of that state as an attempt.
        if move.source in LIVE["job"] and move.source is not JobState.MERGING:
            outcome = "finished" if move.target in _DONE else str(move.target)
            if outcome == "finished" or move.target in ENDED["job"]:
                self._count(ATTEMPTS, _labels("job", rows, "queue", "share"), outcome)

    def _failures(self, move: Move, rows: Sequence[Record]) -> None:
        """Count failed attempts by day, task, queue and error, with one example of each error."""
        day, common = str(int(self._time // DAY)), _error_of(move.changes)
        errors = {id_: _error_of(values) for id_, values in move.own_changes.items() if "error" in values}
        examples: dict[str, str] = {}
        labels = [
            (day, str(row[TASK]), _of("job", row, "queue"), error, examples.setdefault(error, line))
            for row in rows
            for error, line in [errors.get(row[ID], common)]
        ]
        self._count(FAILED_ATTEMPTS, labels)

    def _runs(self, move: Move, rows: Sequence[Record]) -> None:
        outcome = str(move.target) if move.target in ENDED["job"] else "finished"
        for row in rows:
            ran = move.own_changes.get(row[ID], {}).get("wall_seconds", move.changes.get("wall_seconds"))
            if isinstance(ran, int | float):
                self.own.observe(JOB_RUNS, (_of("job", row, "queue"), outcome), ran)

    def _used(self, move: Move, rows: Sequence[Record]) -> None:
        """Note attempts that leave their pilots. One is lost, with its cause, if it did not end well."""
        for row in rows:
            values = {**move.changes, **move.own_changes.get(row[ID], {})}
            seconds = values.get("wall_seconds")
            if not isinstance(seconds, int | float):
                began = row[STARTED] if move.source is JobState.RUNNING else None
                seconds = 0.0 if began is None else max(0.0, self._time - began)
            if seconds or move.source is JobState.RUNNING:
                cause = "" if move.target in DONE_JOBS else _cause_of(move, row[ID])
                self._ended(row, cause, float(seconds), values, move.creates.get(row[ID], ()))

    def _lost(self, move: Move, rows: Sequence[Record]) -> None:
        """Note jobs that did their work, and end before their outputs are stored."""
        cause = STORAGE if move.target is JobState.FAILED else CANCELLED
        for row in rows:
            self._ended(row, cause, row[RAN] or 0.0, None, ())

    def _ended(
        self,
        row: Record,
        cause: str,
        seconds: float,
        values: Mapping[str, Any] | None,
        creates: Iterable[Creation],
    ) -> None:
        """Note an attempt that ended, with its reported ``values``; or without them, that it is lost."""
        needs = _needs(_of("job", row, "requirements"))
        reported = values or {}
        cpu_seconds, max_rss = reported.get("cpu_seconds"), reported.get("max_rss")
        self.ended.append(
            NewAttempt(
                self._time,
                row[ID],
                row[ATTEMPT],
                row[TASK],
                needs.vo,
                needs.owner,
                needs.group,
                _of("job", row, "share"),
                _of("job", row, "queue"),
                cause,
                values is None,
                row[PILOT] or 0,
                row[STARTED] or self._time - seconds,
                seconds,
                float(cpu_seconds) if isinstance(cpu_seconds, int | float) else 0.0,
                needs.cores,
                needs.gpus,
                float(needs.memory),
                float(max_rss) if isinstance(max_rss, int | float) else 0.0,
                sum([new.size for new in creates if isinstance(new, File)]),
            )
        )

    def _count(self, measure: Measurement, labels: Iterable[tuple[str, ...]], *more: str) -> None:
        for values, count in Counter(labels).items():
            self.own.count(measure, (*values, *more), count)


def _error_of(changes: Mapping[str, Any]) -> tuple[str, str]:
    """Return the error that groups failures, and the line as it was written."""
    line = telling_line(str(changes.get("error") or ""))
    return ending_of(line), last_line(line)


_UNKNOWN = Requirements(vo="", group="", owner="", cores=1, memory=0, cpu_time=0)


def _needs(requirements: str) -> Requirements:
    """Return the needs of a job; one core for unreadable ones, so that a measurement fails no commit."""
    try:
        return Requirements.from_text(requirements)
    except (ValueError, IndexError, TypeError):
        return _UNKNOWN


def _cause_of(move: Move, job: int) -> str:
    """Return why a job's attempt is lost: the kind of its failure, or another cause."""
    if move.target in (JobState.CANCELLED, JobState.CLOSED):
        return CANCELLED
    kinds = [new.kind for new in move.creates.get(job, ()) if isinstance(new, Failure)]
    # The payload ended well, but lacks an output.
    return kinds[0] if kinds else OUTPUT if "exit_code" in move.changes else OTHER_LOSS


def _labels(kind: Any, rows: Iterable[Record], *names: str) -> list[tuple[str, ...]]:
    return [tuple(_of(kind, row, name) for name in names) for row in rows]


def _of(kind: Any, row: Record, name: str) -> str:
    return str(row[_PLACES[kind][name]] or "")
