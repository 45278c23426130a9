"""Run trials in several processes, with the same results and order as in one process."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import cast

from pilotage.simulation.reading import Case
from pilotage.simulation.trials import Trial, TrialFailed, trial

Run = tuple[str, int]


def trials(
    case: Case, policies: Sequence[str], seeds: Sequence[int], workers: int, ended: Callable[[], object]
) -> list[Trial]:
    """Run each policy with each seed in ``workers`` processes, or in this one if there is one worker.

    Return the trials by seed, then in the order of the policies. Call ``ended`` after each. Raises
    ``TrialFailed`` for the first that fails, and ends the others.
    """
    runs = [(name, seed) for seed in seeds for name in policies]
    if min(workers, len(runs)) > 1:
        return _over_processes(case, runs, min(workers, len(runs)), ended)
    results = []
    for name, seed in runs:
        results.append(trial(case, name, seed))
        ended()
    return results


def _over_processes(
    case: Case, runs: Sequence[Run], workers: int, ended: Callable[[], object]
) -> list[Trial]:
    """Give each process the next run when it calls.

    Do not use Python's pools: they may wait for ever for a process that is killed as it starts. Here each
    process has a connection that closes when it ends.
    """
    numbers = iter(range(len(runs)))
    results: dict[int, Trial] = {}
    with _crew(workers) as crew:
        # The run of each process; None before its first call.
        has: dict[Connection, int | None] = dict.fromkeys(crew)
        while has:
            for calls in cast("list[Connection]", wait(list(has))):
                number = has.pop(calls)
                with _named_failure(None if number is None else runs[number]):
                    answer = calls.recv()
                    if number is None:
                        calls.send(case)
                if isinstance(answer, TrialFailed):
                    raise answer
                if number is not None:
                    results[number] = answer
                    ended()
                if (number := next(numbers, None)) is not None:
                    has[calls] = number
                    with _named_failure(runs[number]):
                        calls.send(runs[number])
    return [results[number] for number in range(len(runs))]


@contextmanager
def _named_failure(run: Run | None) -> Iterator[None]:
    """Raise ``TrialFailed`` with the name of the run if its process is gone."""
    try:
        yield
    except (EOFError, OSError) as error:
        process = (
            f"policy {run[0]} with seed {run[1]}: its process" if run else "a process that had just begun"
        )
        problem = "was killed; where memory is short, take fewer workers"
        raise TrialFailed(f"{process} {problem}") from error


@contextmanager
def _crew(workers: int) -> Iterator[list[Connection]]:
    """Start processes, and end them in any case."""
    # Do not fork: a thread draws the progress bar, and a fork would copy its locks in their current state.
    context = get_context("spawn")
    processes, crew = [], []
    try:
        for _ in range(workers):
            own_end, far_end = context.Pipe()
            crew.append(own_end)
            # Send the run when the process calls: it is too much data to send to a process that may be gone.
            processes.append(context.Process(target=_work, args=(far_end,)))
            # The process has the last copy of this end, which closes as soon as the process is gone.
            with far_end:
                processes[-1].start()
        yield crew
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
        for own_end in crew:
            own_end.close()


def _work(calls: Connection) -> None:
    """Call, and make the requested runs, until this process or its parent ends.

    Do not log faults of virtual sites.
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
    """End as soon as the parent has ended, in any way."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
