"""Lines of text about jobs that pilots of other queues took, or left (E1 to E3)."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pilotage.model.records.borrowing import Borrowing, Comparison
from pilotage.model.records.spec import Binding


def of_borrowings(found: Iterable[Borrowing]) -> Iterator[str]:
    """Return where each attempt of a job was meant to run, who took it, and the expected gain."""
    for one in found:
        came = f" and {_size(one.staging)} are still to come" if one.staging else ""
        idle = f", none of its share runs, and it waited, or nothing started, for {one.nothing_for:.0f} s"
        line = f"{one.ahead} are ahead{came}{idle if one.nothing_for else ''}"
        gain = f"{_clock(one.ends_there, one.time)} at {one.preferred}, where {line}"
        ends = f"ends {_clock(one.ends_here, one.time)} there, {gain}"
        why = ends if one.binding == "elastic" else f"bound to none; {ends}"
        taken = f"taken by {one.queue} at {_clock(one.time, one.time)}"
        yield f"attempt {one.attempt} preferred {one.preferred}; {taken}: {why}"


def of_comparisons(preferred: str, found: Iterable[Comparison]) -> Iterator[str]:
    """Return how pilots of other queues value a job that waits at its preferred queue."""
    for one in found:
        if one.obstacle or one.gain is None:
            yield f"{one.queue}'s pilot left it: {one.obstacle}"
        elif one.binding == "late":
            yield f"bound to none: the next free slot at {preferred} or {one.queue} takes it in its turn"
        elif one.gain <= one.needed:
            yield f"{one.queue}'s pilot left it: gain {one.gain:.0f} s, {one.needed:.0f} s needed"
        else:
            gain = f"gain {one.gain:.0f} s, {one.needed:.0f} s needed"
            yield f"a pilot at {one.queue} with a free slot takes it in its turn: {gain}"


def of_none(preferred: str, said: Binding | None) -> str:
    """Return why no pilot of another queue borrows a waiting job, although others fit it.

    If ``said`` bound it early it stays. Otherwise it may be bound to another queue where pilots are idle.
    """
    if said == "early":
        return f"only {preferred}'s pilots may take it: its task, VO or brokerage binds it early"
    why = "it is bound early by default, no other queue that fits could read its inputs"
    idle = "it may yet be bound to a queue that holds its inputs and has idle pilots"
    return f"no other queue's pilots borrow it from {preferred}: {why}, or it is of an old choice; {idle}"


def _clock(time: float, now: float) -> str:
    """Return the time of day in UTC, with the date if that differs.

    Include seconds, because short jobs gain only a few.
    """
    then, today = datetime.fromtimestamp(time, UTC), datetime.fromtimestamp(now, UTC)
    return then.strftime("%H:%M:%S" if then.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def _size(megabytes: float) -> str:
    return f"{megabytes / 1000:.3g} GB" if megabytes >= 1000 else f"{megabytes:.3g} MB"
