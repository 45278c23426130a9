"""Trials over several processes: the same as one after another, and in the same order."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait

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
    others = set(active_children())
    # Not by fork: the bar of a terminal is drawn by a thread, whose locks would be copied as they are.
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(case,)) as pool:
        futures = [pool.submit(_trial, *run) for run in runs]
        try:
            for future in as_completed(futures):
                future.result()
                ended()
        except BaseException as error:
            # Else the pool would wait for what runs, and begin what does not.
            left = [run for run, future in zip(runs, futures, strict=True) if not _has_ended(future)]
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - others:
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise TrialFailed(_last_words(left[:workers])) from error
            raise
    return [future.result() for future in futures]


def _has_ended(future: Future[Trial]) -> bool:
    return future.done() and not isinstance(future.exception(), BrokenProcessPool)


def _last_words(left: Sequence[Run]) -> str:
    """Say that a process is gone, which had one of these runs: they begin in their order."""
    named = " or ".join(f"policy {name} with seed {seed}" for name, seed in left)
    return f"{named}: its process was killed; where memory is short, take fewer workers"


def _begin(case: Case) -> None:
    """Prepare a process: faults of virtual sites are nothing to log, and it ends with its parent."""
    _CASES.append(case)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("pilotage").setLevel(logging.CRITICAL)


def _end_with_parent() -> None:
    """End as soon as the parent has, however that ended: a pool leaves its processes behind."""
    if (parent := parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)


_CASES: list[Case] = []
"""The one case of this process: it may hold a whole log, so it comes once and not with each run."""


def _trial(name: str, seed: int) -> Trial:
    return trial(_CASES[0], name, seed)
