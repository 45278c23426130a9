"""Trials over several processes: the same as one after another, and in the same order."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import cast

from .reading import Case
from .trials import Trial, TrialFailed, trial

Run = tuple[str, int]


def trials(
    case: Case, policies: Sequence[str], seeds: Sequence[int], workers: int, ended: Callable[[], object]
) -> list[Trial]:
    """Run each policy with each seed in so many processes, in this one alone for one worker.

    They stand seed by seed, in the order of the policies; ``ended`` is called after each. Raises
    :class:`~.trials.TrialFailed` for the first that fails: the others are ended then.
    """
    runs = [(name, seed) for seed in seeds for name in policies]
    if min(workers, len(runs)) > 1:
        return _over_processes(case, runs, min(workers, len(runs)), ended)
    found = []
    for name, seed in runs:
        found.append(trial(case, name, seed))
        ended()
    return found


def _over_processes(
    case: Case, runs: Sequence[Run], workers: int, ended: Callable[[], object]
) -> list[Trial]:
    """Give each process the next run whenever it calls.

    No pool of Python's: it may wait for ever for a process that is killed as it starts. Here each has a
    connection of its own, which ends with it.
    """
    left = iter(range(len(runs)))
    found: dict[int, Trial] = {}
    with _crew(workers) as crew:
        # The runs that they have: none before they call for the first time.
        has: dict[Connection, int | None] = dict.fromkeys(crew)
        while has:
            for calls in cast("list[Connection]", wait(list(has))):
                number = has.pop(calls)
                with _told(None if number is None else runs[number]):
                    answer = calls.recv()
                    if number is None:
                        calls.send(case)
                if isinstance(answer, TrialFailed):
                    raise answer
                if number is not None:
                    found[number] = answer
                    ended()
                if (number := next(left, None)) is not None:
                    has[calls] = number
                    with _told(runs[number]):
                        calls.send(runs[number])
    return [found[number] for number in range(len(runs))]


@contextmanager
def _told(run: Run | None) -> Iterator[None]:
    """Raise :class:`TrialFailed`, which names the run, if its process is gone."""
    try:
        yield
    except (EOFError, OSError) as error:
        whose = f"policy {run[0]} with seed {run[1]}: its process" if run else "a process that had just begun"
        what = "was killed; where memory is short, take fewer workers"
        raise TrialFailed(f"{whose} {what}") from error


@contextmanager
def _crew(workers: int) -> Iterator[list[Connection]]:
    """Begin processes, and end them, whatever they do."""
    # Not by fork: the bar of a terminal is drawn by a thread, whose locks would be copied as they are.
    context = get_context("spawn")
    processes, crew = [], []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            crew.append(ours)
            # What it is to run is sent when it calls: it is too much for a process that may be gone.
            processes.append(context.Process(target=_work, args=(theirs,)))
            # The last copy of this end is its own: it closes as soon as that is gone.
            with theirs:
                processes[-1].start()
        yield crew
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
        for ours in crew:
            ours.close()


def _work(calls: Connection) -> None:
    """Call, and make the runs that are asked for, until this process is ended.

    Faults of virtual sites are nothing to log. It ends with its parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("pilotage").setLevel(logging.CRITICAL)
    calls.send(None)
    case = calls.recv()
    while True:
        name, seed = calls.recv()
        try:
            calls.send(trial(case, name, seed))
        except TrialFailed as error:
            calls.send(error)


def _end_with_parent() -> None:
    """End as soon as the parent has, however that ended."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
