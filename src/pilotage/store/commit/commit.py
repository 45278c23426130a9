"""Write the changes of a decision that still hold, in one transaction. No other module writes them."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, delete

from pilotage.model.documents.decision import (
    KINDS,
    Begin,
    Change,
    Committed,
    Create,
    Creation,
    Decision,
    Forget,
    Move,
    NoteBreakers,
    Touch,
)
from pilotage.model.records.counters import COUNTERS, MATCHES_BY_SITE, Claim
from pilotage.model.records.spec import LiveWork
from pilotage.model.records.states import (
    ENDED,
    LIVE,
    LIVE_PILOTS,
    JobState,
    Kind,
    TransferState,
)
from pilotage.model.records.work import NewTask
from pilotage.store.commit.creation import Creator
from pilotage.store.commit.file_conflicts import refuse_retaken
from pilotage.store.commit.forgetting import forget
from pilotage.store.commit.job_rooms import CommitJobRooms
from pilotage.store.commit.measuring import CommitMeasurements
from pilotage.store.commit.transfer_requests import held_up
from pilotage.store.commit.working_set import CHANGES, ID, KEYS, SUBMITTER, TASK, Record, WorkingSet
from pilotage.store.database.rows import among
from pilotage.store.history.decisions import CommitChoices, Documents
from pilotage.store.history.events import BY_A_PERSON, LOGGED, NO_TASK, NewEvents
from pilotage.store.history.history import Entries
from pilotage.store.history.numbers import Numbers
from pilotage.store.jobs import ended_attempts
from pilotage.store.jobs.counters import KEY_COLUMNS, Deltas, LightDeltas
from pilotage.store.people.tokens import refuse_tasks_of_closed, tokens
from pilotage.store.queues import advertisements, circuit_breakers
from pilotage.store.queues.last_seen import LastSeen
from pilotage.store.servers.iterations import begin
from pilotage.store.tasks import table as task_rows
from pilotage.store.tasks.table import ended_work, has_room
from pilotage.store.transfers import link_rates

QUEUE = KEYS + KEY_COLUMNS["job"].index("queue")
"""The index of a job's queue."""

_REVOKE = delete(tokens).where(among(tokens.c.pilot, "pilots"))


def is_light(decision: Decision) -> bool:
    """Return whether a decision may be committed beside others: it only touches records and moves jobs.

    It creates nothing, claims nothing, activates no job, and keeps the columns that count jobs.
    """
    return not decision.choices and all(
        isinstance(change, Touch) or (isinstance(change, Move) and _is_light_move(change))
        for change in decision.changes
    )


def _is_light_move(move: Move) -> bool:
    free = not (
        move.creates
        or move.claims
        or move.job_quotas
        or move.work_limits
        or move.changes.keys() & set(KEY_COLUMNS["job"])
    )
    return move.kind == "job" and free and move.target is not JobState.ACTIVATED


def _unchanged(change: Move | Touch, rows: list[Record]) -> list[Record]:
    """Return the records that have not changed since the decision read them."""
    if isinstance(change, Touch) and change.server_read is not None:
        return [row for row in rows if row[SUBMITTER] == change.server_read]
    if change.changes_read is None:
        return rows
    return [row for row in rows if row[CHANGES] == change.changes_read]


def _counted(claim: Claim) -> Kind:
    """Return the kind of new records that a claim limits: pilots for a claim at a site."""
    return "pilot" if claim.counter == MATCHES_BY_SITE else COUNTERS[claim.counter][0]


Result = tuple[tuple[int, ...], tuple[int | None, ...]]
"""The ids of a change's moved or touched records, and of its new records."""


class Commit:
    """The application of one decision in one transaction.

    ``documents`` are the rows of its choices. ``entries`` writes records' histories, ``events`` the log.
    ``measured`` counts what happened, and collects ended attempts. With ``light``, other commits may run
    beside this one.
    """

    def __init__(
        self,
        connection: Connection,
        decision: Decision,
        documents: Documents,
        actor: str,
        entries: Entries,
        events: NewEvents,
        measured: CommitMeasurements,
        light: bool,
    ) -> None:
        self._connection = connection
        self._decision = decision
        self._actor = actor
        self._records = WorkingSet(connection)
        self._light = light
        self._deltas = LightDeltas(connection) if light else Deltas(connection)
        self._entries = entries
        self._events, self._measured = events, measured
        self._numbers = Numbers(connection)
        first = self._numbers.take("decision", documents.choices).start
        self._reasons = CommitChoices(connection, documents, first)
        self._creator = Creator(
            connection, decision.time, self._deltas, entries, self._events, self._numbers, actor
        )
        self._last_seen = LastSeen(connection, decision.time)
        self._handed_back = 0
        self._ended_pilots: list[int] = []
        self._brought: list[int] = []
        self._is_late = False
        """Whether the commit refuses the rest of the decision, because it came too late."""

    def run(self) -> Committed:
        """Apply the changes in order. Return the outcome of each."""
        changes = self._decision.changes
        self._records.load(changes)
        # Read these before folding differences: during the fold, they are in neither table.
        self._job_rooms = CommitJobRooms(self._connection, changes, self._records)
        self._is_late = not self._has_room_for_resumed(changes)
        if not self._light:
            self._deltas.fold()
        claims = [claim for change in changes if isinstance(change, Move | Create) for claim in change.claims]
        self._deltas.look_up([*claims, *advertisements.read_for(changes)])
        results = [self._apply(change) for change in changes]
        self._records.write()
        self._creator.write()
        self._numbers.write()
        self._reasons.write(self._decision.time, self._actor)
        if self._brought:
            self._measured.count_transferred(
                link_rates.count(self._connection, self._brought, self._decision.time)
            )
        self._revoke_tokens()
        self._last_seen.write()
        self._deltas.write(self._connection)
        if self._measured.ended:
            ended_attempts.write(self._connection, self._measured.ended)
        # Write events last, so that their readers wait only briefly.
        self._events.write(self._connection)
        return Committed(
            accepted=tuple(accepted for accepted, _ in results),
            created=tuple(created for _, created in results),
            handed_back=self._handed_back,
        )

    def _apply(self, change: Change) -> Result:
        if isinstance(change, Begin):
            self._is_late = not begin(self._connection, change, self._decision.time)
            return (), ()
        if self._is_late:
            return self._hand_back(change)
        if isinstance(change, Create):
            return (), self._create(change)
        if isinstance(change, Touch):
            return self._touch(change), ()
        if isinstance(change, Forget | NoteBreakers):
            self._forget_or_note(change)
            return (), ()
        if not isinstance(change, Move):
            raise TypeError(f"{type(change).__name__} is committed as a match, by Store.commit")
        accepted = self._move(change)
        return accepted, self._creations(change, set(accepted)) if change.creates else ()

    def _forget_or_note(self, change: Forget | NoteBreakers) -> None:
        if isinstance(change, Forget):
            forget(self._connection, change, self._decision.time, self._actor)
            return
        for breaker, number in circuit_breakers.note(self._connection, change.changes, self._numbers):
            meaning = self._entries.number("breaker", breaker.source, breaker.target, breaker.cause)
            self._events.note("breaker", meaning, breaker.whose[-1] or NO_TASK, [number])

    def _has_room_for_resumed(self, changes: Sequence[Change]) -> bool:
        """Return whether the limits of unfinished work allow these ended tasks to resume."""
        moves = [change for change in changes if isinstance(change, Move) and change.work_limits]
        tasks = {
            row[TASK]
            for move in moves
            for row in self._records.standing(move.kind, (move.source,), move.ids, move.attempts)
        }
        limits = moves[0].work_limits if moves else ()
        return not tasks or has_room(self._connection, limits, ended_work(self._connection, tasks))

    def _hand_back(self, change: Change) -> Result:
        """Count a change that came too late, and return that none of it was done."""
        if isinstance(change, Create):
            self._handed_back += len(change.records)
            return (), (None,) * len(change.records)
        self._handed_back += len(set(change.ids)) if isinstance(change, Move | Touch) else 0
        return (), ()

    def _move(self, move: Move) -> tuple[int, ...]:
        """Move the records that still match the decision, as many as the claims allow."""
        rows = self._records.standing(move.kind, (move.source,), move.ids, move.attempts)
        if move.at is not None:
            rows = [row for row in rows if row[QUEUE] == move.at]
        rows = _unchanged(move, rows)
        movable = rows[: self._deltas.room(move.claims, len(rows))] if move.claims else rows
        movable = self._ready_to_bring(move, self._job_rooms.fitting(move, movable))
        self._handed_back += len(set(move.ids)) - len(movable)
        reason = None if move.choice is None else self._reasons.note(move.choice, bool(movable), move.binding)
        if not movable:
            return ()
        if move.kind == "task" and move.source in ENDED["task"]:
            refuse_retaken(self._connection, [row[ID] for row in movable])
            refuse_tasks_of_closed(self._connection, [row[ID] for row in movable])
        entry = self._entries.entry(move.kind, move.source, move.target, move.cause, reason)
        self._records.note(move.kind, movable, entry)
        self._log(move, movable)
        self._deltas.count_matches(move.claims, len(movable))
        self._count(move, movable)
        self._measured.moved(move, movable)
        if move.kind == "job":
            self._measure(move, movable)
        values = {**move.changes, "state": str(move.target), "since": self._decision.time}
        if move.choice is not None and move.binding != "early" and self._reasons.is_open(move.choice):
            values["choice"] = reason
        self._records.change(move.kind, movable, values)
        if move.own_changes:
            self._records.change_own(move.kind, movable, move.own_changes)
        if move.kind == "task" and "spec" in move.changes:
            task_rows.change_volumes(
                self._connection, [row[ID] for row in movable], str(move.changes["spec"])
            )
        if move.next_attempt:
            self._records.next_attempt(move.kind, movable)
        ids = tuple(row[ID] for row in movable)
        self._note_end(move, ids)
        return ids

    def _ready_to_bring(self, move: Move, rows: list[Record]) -> list[Record]:
        """Return the records without a live upload from an earlier attempt."""
        if not rows or not move.creates:
            return rows
        # First write the transfers that this decision ends: they block nothing.
        self._records.write("transfer")
        waiting = held_up(self._connection, move.creates)
        return [row for row in rows if row[ID] not in waiting] if waiting else rows

    def _log(self, move: Move, rows: Sequence[Record]) -> None:
        """Note the events of a move."""
        if move.kind not in LOGGED:
            return
        self._note(move.kind, self._entries.number(move.kind, move.source, move.target, move.cause), rows)

    def _note(self, kind: Kind, number: int, rows: Sequence[Record]) -> None:
        """Note an event for each task of the records. ``number`` identifies the transition's meaning."""
        by_task: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            by_task[row[TASK] or NO_TASK].append(row[ID])
        for task, ids in by_task.items():
            self._events.note(kind, number, task, ids)

    def _note_end(self, move: Move, ids: tuple[int, ...]) -> None:
        if move.kind == "pilot" and move.target not in LIVE_PILOTS:
            self._ended_pilots += ids
        if move.kind == "transfer" and move.target is TransferState.DONE:
            self._brought += ids

    def _count(self, move: Move, rows: Sequence[Record]) -> None:
        columns = KEY_COLUMNS[move.kind]
        is_recounted = not move.changes.keys().isdisjoint(columns)
        counts = (
            {tuple(rows[0][KEYS:]): 1} if len(rows) == 1 else Counter([tuple(row[KEYS:]) for row in rows])
        )
        for before, count in counts.items():
            after = before
            if is_recounted:
                after = tuple(map(move.changes.get, columns, before))
            self._deltas.moved(move.kind, before, after, move.source, move.target, count)
            self._last_seen.moved(move.kind, move.target, dict(zip(columns, after, strict=True)))

    def _measure(self, move: Move, rows: Sequence[Record]) -> None:
        """Record how long each job took at its queue."""
        if move.own_changes or "wall_seconds" in move.changes:
            for row in rows:
                self._last_seen.measured(row[QUEUE], {**move.changes, **move.own_changes.get(row[ID], {})})

    def _touch(self, touch: Touch) -> tuple[int, ...]:
        states = (*LIVE[touch.kind], *ENDED[touch.kind]) if touch.ended else LIVE[touch.kind]
        rows = self._records.standing(touch.kind, states, touch.ids, touch.attempts)
        rows = _unchanged(touch, rows)
        self._handed_back += len(set(touch.ids)) - len(rows)
        if rows and touch.changes:
            self._records.change(touch.kind, rows, touch.changes)
            if touch.event:
                self._note(touch.kind, self._entries.number(touch.kind, None, touch.event, BY_A_PERSON), rows)
            columns = KEY_COLUMNS[touch.kind]
            for keys in {tuple(row[KEYS:]) for row in rows}:
                self._last_seen.touched(touch, dict(zip(columns, keys, strict=True)))
        return tuple(row[ID] for row in rows)

    def _creations(self, move: Move, accepted: set[int]) -> tuple[int | None, ...]:
        """Create the records that depend on the moved records, and no others."""
        resting = [(id_, record) for id_ in move.creates for record in move.creates[id_]]
        records = [record for id_, record in resting if id_ in accepted]
        # Write ended transfers first: a new transfer is compared with the live ones.
        self._records.write("transfer")
        ids = iter(self._creator.create(records, move.cause))
        return tuple(next(ids) if id_ in accepted else None for id_, _ in resting)

    def _create(self, create: Create) -> tuple[int | None, ...]:
        added = [LiveWork.of(record.spec) for record in create.records if isinstance(record, NewTask)]
        if create.work_limits and not has_room(self._connection, create.work_limits, added):
            return self._hand_back(create)[1]
        fits = self._fitting(create.records, create.claims)
        self._handed_back += fits.count(False)
        records = [record for record, fit in zip(create.records, fits, strict=True) if fit]
        self._records.write("transfer")
        ids = iter(self._creator.create(records, create.cause))
        return tuple(next(ids) if fit else None for fit in fits)

    def _fitting(self, records: Sequence[Creation], claims: Sequence[Claim]) -> list[bool]:
        """Return which records fit the claims. Each claim limits the kind that its counter counts."""
        kinds = [KINDS.get(type(record)) for record in records]
        fits = [True] * len(records)
        for kind in {_counted(claim) for claim in claims}:
            counted = [index for index, of in enumerate(kinds) if of == kind]
            of_kind = [claim for claim in claims if _counted(claim) == kind]
            for index in counted[self._deltas.room(of_kind, len(counted)) :]:
                fits[index] = False
        return fits

    def _revoke_tokens(self) -> None:
        """Revoke the credential of an ended pilot (P9)."""
        if self._ended_pilots:
            self._connection.execute(_REVOKE, {"pilots": self._ended_pilots})
