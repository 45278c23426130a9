"""The verdict on a storm: hypotheses about what must hold. Each yields a sentence for all that does not."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from pilotage.model.records.counters import COUNTERS
from pilotage.model.records.states import AT_A_PILOT, LIVE, JobState
from pilotage.store.history.events import unpacked
from pilotage.store.jobs.counters import counts

from .recovery import is_again
from .system import NAME, SITES
from .work import Expectation

TABLES = {"task": "tasks", "job": "jobs", "transfer": "transfers", "pilot": "pilots"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a storm left: the database, the place of all files, and what each accepted task must become.

    ``only_absences`` says that nothing struck but absences.
    """

    connection: Connection
    place: Path
    expected: Mapping[int, Expectation]
    only_absences: bool = False

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return [tuple(row) for row in self.connection.execute(text(statement))]


def accepted_tasks_ended(evidence: Evidence) -> Iterator[str]:
    """Every accepted task ended as it should, and there is no task that nobody submitted."""
    rows = evidence.rows("SELECT id, state, error FROM tasks")
    found, errors = {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows}
    for task, expected in evidence.expected.items():
        if task not in found:
            yield f"task {task} ({expected.name}) was accepted, and is gone"
        # A task may have ended before somebody cancelled it.
        elif found[task] != expected.state and (expected.state, found[task]) != ("cancelled", "finished"):
            yield f"task {task} ({expected.name}) is {found[task]}, not {expected.state}: {errors[task]}"
    for task in sorted(set(found) - set(evidence.expected), key=str):
        yield f"task {task} is there, and nobody submitted it, or it was submitted twice"


def outputs_once_and_right(evidence: Evidence) -> Iterator[str]:
    """Each output of a finished task is there once, with the right content; there is no other file.

    They lie in the north, or where their jobs ran while its storage was drained.
    """
    roots = [evidence.place / "storages" / site / "tasks" / NAME for site in SITES]
    finished = {row[0] for row in evidence.rows("SELECT id FROM tasks WHERE state = 'finished'")}
    for task, expected in evidence.expected.items():
        files = [path for root in roots for path in (root / str(task)).rglob("*") if path.is_file()]
        for name, count in Counter(path.name for path in files).items():
            if count > 1:
                yield f"{name} of task {task} ({expected.name}) is there {count} times"
            if name not in expected.outputs:
                yield f"{name} of task {task} ({expected.name}) is an output that it does not have"
        there = {path.name: path.read_text() for path in files}
        for name, content in expected.outputs.items():
            if name not in there and task in finished:
                yield f"{name} of task {task} ({expected.name}) is missing"
            elif there.get(name, content) != content:
                yield f"{name} of task {task} ({expected.name}) has wrong content: {there[name][:200]!r}"


def no_two_attempts_at_once(evidence: Evidence) -> Iterator[str]:
    """No two attempts of a job ran at once, and none ran again after one that was accepted."""
    ledger = evidence.place / "ledger"
    overlaps = ledger / "overlaps"
    if overlaps.exists():
        yield from overlaps.read_text().splitlines()
    for book in ledger.iterdir():
        begun = Counter(re.findall(r"^(\S+) begins", book.read_text(), re.MULTILINE))
        for attempt, times in begun.items():
            if times > 1:
                yield f"attempt {attempt} began {times} times"


def nothing_again_after_absences(evidence: Evidence) -> Iterator[str]:
    """What ended well is not computed again if servers, or the ways to them, were only away."""
    books = (evidence.place / "ledger").iterdir() if evidence.only_absences else ()
    for book in books:
        if is_again(told := book.read_text()):
            yield f"job {book.name} was computed again: {'; '.join(told.splitlines())}"


def nothing_is_live(evidence: Evidence) -> Iterator[str]:
    """No job, transfer or pilot is left over once all tasks have ended."""
    for kind, table in TABLES.items():
        states = ", ".join(f"'{state}'" for state in LIVE[kind])  # type: ignore[index]
        for number, state in evidence.rows(f"SELECT id, state FROM {table} WHERE state IN ({states})"):
            yield f"{kind} {number} is still {state}"


def counters_agree(evidence: Evidence) -> Iterator[str]:
    """No slot leaks: the counters by which limits are kept agree with the records."""
    told: Counter[tuple[str, str, str, str]] = Counter()
    for counter, first, second, state, count in evidence.connection.execute(counts.select()):
        told[counter, first, second, state] += count
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for counter, (kind, columns) in COUNTERS.items():
        names = ", ".join(f'CAST("{column}" AS varchar)' for column in columns)
        for *key, state, count in evidence.rows(
            f"SELECT {names}, state, COUNT(*) FROM {TABLES[kind]} GROUP BY {names}, state"
        ):
            counted[counter, key[0], " ".join(key[1:]), state] += count
    for line in sorted(told.keys() | counted.keys()):
        if line[0] in COUNTERS and told[line] != counted[line]:
            yield f"the counter {' '.join(line)} is {told[line]}, and there are {counted[line]}"


def no_token_left(evidence: Evidence) -> Iterator[str]:
    """No token of a pilot outlives it."""
    for (pilot,) in evidence.rows("SELECT pilot FROM tokens WHERE pilot IS NOT NULL"):
        yield f"pilot {pilot} has ended, and its token is still valid"


def no_file_left(evidence: Evidence) -> Iterator[str]:
    """No part of a file, scratch area or work directory is left."""
    storages = evidence.place / "storages"
    for path in storages.rglob("*"):
        if path.is_file() and (path.name.endswith(".part") or ".scratch" in path.parts):
            yield f"{path.relative_to(storages)} is left behind"
    for pilot in (evidence.place / "pilots").iterdir():
        for path in pilot.iterdir():
            if path.is_dir() and re.fullmatch(r"\d+\.\d+", path.name):
                yield f"the work directory {pilot.name}/{path.name} is left behind"


FIRST = {"breaker": "closed"}
"""The state before a record's first event, where it is not the record's making."""


def events_agree(evidence: Evidence) -> Iterator[str]:
    """The last event of each record is its state, and each event begins where the one before ended."""
    last: dict[tuple[str, int], str] = {}
    for kind, source, target, records in evidence.rows(
        "SELECT kind, source, target, records FROM events JOIN meanings ON meanings.id = events.meaning"
        " ORDER BY events.id"
    ):
        for number in unpacked(records):
            before = last.get((kind, number), FIRST.get(kind, ""))
            if before != source:
                yield f"an event moves {kind} {number} from {source or 'nothing'}, not {before or 'nothing'}"
            last[kind, number] = target
    for kind, table in {**TABLES, "breaker": "noted_breakers"}.items():
        for number, state in evidence.rows(f"SELECT id, state FROM {table}"):
            told = last.get((kind, number))
            if told != state:
                yield f"{kind} {number} is {state}, and its last event says {told}"


def use_agrees(evidence: Evidence) -> Iterator[str]:
    """Each attempt that left a pilot is accounted for once, and the days add up what the attempts used."""
    left, ran, lost = Counter[int](), Counter[int](), Counter[int]()
    for source, target, records in evidence.rows(
        "SELECT source, target, records FROM events JOIN meanings ON meanings.id = events.meaning"
        " WHERE kind = 'job'"
    ):
        if source in AT_A_PILOT and target not in AT_A_PILOT:
            (ran if source == JobState.RUNNING else left).update(unpacked(records))
        if source in ("holding", "transferring") and target in ("failed", "cancelled", "closed"):
            lost.update(unpacked(records))
    attempts = evidence.rows("SELECT job, attempt, is_loss FROM ended_attempts")
    for (job, attempt, is_loss), times in Counter(attempts).items():
        if times > 1:
            yield f"attempt {job}.{attempt} is accounted for {times} times (loss: {is_loss})"
    accounts = Counter(job for job, _, is_loss in attempts if not is_loss)
    for job in ran | left | accounts:
        # A pilot may have begun to prepare an attempt that did not run.
        if not ran[job] <= accounts[job] <= ran[job] + left[job]:
            yield f"job {job} ran {ran[job]} times, and {accounts[job]} attempts are accounted for"
    if (losses := Counter(job for job, _, is_loss in attempts if is_loss)) != lost:
        yield f"jobs that lost their outputs: {lost}; accounted for: {losses}"
    yield from _days_agree(evidence)


def _days_agree(evidence: Evidence) -> Iterator[str]:
    keys = 'vo, owner, "group", share, queue, cause'
    # Beyond a bound, the use of a person's tasks is added up.
    if not evidence.rows("SELECT 1 FROM daily_task_use WHERE task = 0 LIMIT 1"):
        keys += ", task"
    seconds = "SUM(CASE WHEN is_loss THEN 0 ELSE seconds * cores END)"
    lost = "SUM(CASE WHEN cause <> '' THEN seconds * cores ELSE 0 END)"
    of_attempts = evidence.rows(
        f"SELECT {keys}, SUM(CASE WHEN is_loss THEN 0 ELSE 1 END), {seconds}, {lost} FROM ended_attempts"
        " WHERE id <= COALESCE((SELECT last FROM numbers WHERE kind = 'added attempts'), 0)"
        f" GROUP BY {keys}"
    )
    sums = "SUM(attempts), SUM(core_seconds), SUM(lost_seconds)"
    of_days = evidence.rows(f"SELECT {keys}, {sums} FROM daily_task_use GROUP BY {keys}")
    expected = {row[:-3]: row[-3:] for row in of_attempts}
    added = {row[:-3]: row[-3:] for row in of_days}
    whole = [evidence.rows(f"SELECT {sums} FROM {table}")[0] for table in ("daily_use", "daily_task_use")]
    if [*filter(None, whole[0])] != pytest.approx([*filter(None, whole[1])]):
        yield f"days add up {whole[0]}, and {whole[1]} by task"
    for key in expected.keys() | added.keys():
        if added.get(key, ()) != pytest.approx(expected.get(key, ())):
            yield f"the days of {key} add up {added.get(key)}, and its attempts {expected.get(key)}"


def no_connection_left(evidence: Evidence) -> Iterator[str]:
    """No transaction is left open in the database."""
    for pid, state in evidence.rows(
        "SELECT pid, state FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        " AND pid <> pg_backend_pid() AND datname = current_database()"
    ):
        yield f"database process {pid} is {state}"


HYPOTHESES: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    accepted_tasks_ended,
    outputs_once_and_right,
    no_two_attempts_at_once,
    nothing_again_after_absences,
    nothing_is_live,
    counters_agree,
    no_token_left,
    no_file_left,
    events_agree,
    use_agrees,
    no_connection_left,
)
"""What must hold after each storm."""


def history(evidence: Evidence) -> Iterator[str]:
    """Yield a line for each transition of a record, in order: what it takes to understand a verdict."""
    statement = (
        "SELECT events.time, kind, source, target, cause, records FROM events"
        " JOIN meanings ON meanings.id = events.meaning ORDER BY events.id"
    )
    for at, kind, source, target, cause, records in evidence.rows(statement):
        for number in unpacked(records):
            yield f"{at:.3f} {kind} {number} {source or '-'} {target} {cause}"
    for line in evidence.rows(
        "SELECT id, state, file, source, source_path, destination, error FROM transfers ORDER BY id"
    ):
        yield f"transfer {' '.join(map(str, line))}"


def judge(evidence: Evidence) -> list[str]:
    """Return all that is wrong."""
    return [f"{hypothesis.__name__}: {fault}" for hypothesis in HYPOTHESES for fault in hypothesis(evidence)]
