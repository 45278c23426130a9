"""Text about jobs that pilots of other queues borrowed, or did not (E1 to E3)."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pilotage.model.records.borrowing import Borrowing, Comparison
from pilotage.model.records.spec import Binding


def of_borrowings(borrowings: Iterable[Borrowing]) -> Iterator[str]:
    """Yield for each attempt of a job its preferred queue, the queue that took it, and the expected gain."""
    for borrowing in borrowings:
        came = f" and {_size(borrowing.staging)} are still to come" if borrowing.staging else ""
        idle = (
            f", none of its share runs, and it waited, or nothing started, for {borrowing.nothing_for:.0f} s"
        )
        line = f"{borrowing.ahead} are ahead{came}{idle if borrowing.nothing_for else ''}"
        gain = f"{_clock(borrowing.ends_there, borrowing.time)} at {borrowing.preferred}, where {line}"
        ends = f"ends {_clock(borrowing.ends_here, borrowing.time)} there, {gain}"
        reason = ends if borrowing.binding == "elastic" else f"bound to none; {ends}"
        taker = f"taken by {borrowing.queue} at {_clock(borrowing.time, borrowing.time)}"
        yield f"attempt {borrowing.attempt} preferred {borrowing.preferred}; {taker}: {reason}"


def of_comparisons(preferred: str, comparisons: Iterable[Comparison]) -> Iterator[str]:
    """Return how pilots of other queues value a job that waits at its preferred queue."""
    for comparison in comparisons:
        queue = comparison.queue
        if comparison.obstacle or comparison.gain is None:
            yield f"{queue}'s pilot left it: {comparison.obstacle}"
        elif comparison.binding == "late":
            yield f"bound to none: the next free slot at {preferred} or {queue} takes it in its turn"
        elif comparison.gain <= comparison.needed:
            yield f"{queue}'s pilot left it: gain {comparison.gain:.0f} s, {comparison.needed:.0f} s needed"
        else:
            gain = f"gain {comparison.gain:.0f} s, {comparison.needed:.0f} s needed"
            yield f"a pilot at {queue} with a free slot takes it in its turn: {gain}"


def of_none(preferred: str, binding: Binding | None) -> str:
    """Return why no pilot of another queue borrows a waiting job, although others fit it.

    A job with early ``binding`` stays. Others may be bound to another queue with idle pilots.
    """
    if binding == "early":
        return f"only {preferred}'s pilots may take it: its task, VO or brokerage binds it early"
    reason = "it is bound early by default, no other queue that fits could read its inputs"
    idle = "it may yet be bound to a queue that holds its inputs and has idle pilots"
    return f"no other queue's pilots borrow it from {preferred}: {reason}, or it is of an old choice; {idle}"


def _clock(time: float, now: float) -> str:
    """Return the time of day in UTC, with the date if that differs.

    Include seconds, because short jobs gain only a few.
    """
    then, today = datetime.fromtimestamp(time, UTC), datetime.fromtimestamp(now, UTC)
    return then.strftime("%H:%M:%S" if then.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def _size(megabytes: float) -> str:
    return f"{megabytes / 1000:.3g} GB" if megabytes >= 1000 else f"{megabytes:.3g} MB"
