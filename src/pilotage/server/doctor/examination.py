"""Run all checks, each in its own thread and time. One that breaks, or does not end, is itself a finding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from pilotage.flow.outside.workers import Workers
from pilotage.server.doctor.checks import DoctorCheck, Finding, cited, warning
from pilotage.server.doctor.installation import Installation, NotExamined

LIMIT = 30.0
"""Seconds for one check of one thing."""

AT_ONCE = 16
"""Most checks that run at the same time."""

Work = Callable[[], tuple[Finding, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The result of one check of one thing. ``skipped`` is the reason why it could not run here."""

    check: str
    about: str = ""
    """The thing that was examined; empty: the whole installation."""
    findings: tuple[Finding, ...] = ()
    skipped: str = ""


def examined(
    installation: Installation, checks: Sequence[DoctorCheck], limit: float = LIMIT
) -> Iterator[Examined]:
    """Yield the result of each check. A check that others need ends before these begin.

    ``limit`` is the time in s of each check of one thing.
    """
    import_module("pilotage.store")  # threads that import one package at once disturb each other
    workers = Workers()
    for check in checks:
        if check.first:
            yield from _together(installation, [check], workers, limit)
    yield from _together(installation, [check for check in checks if not check.first], workers, limit)


def _together(
    installation: Installation, checks: Iterable[DoctorCheck], workers: Workers, limit: float
) -> Iterator[Examined]:
    started: list[tuple[str, str, Future[tuple[Finding, ...]]]] = []
    for check in checks:
        for about, work in _works(check, installation):
            running = [future for *_, future in started if not future.done()]
            if len(running) >= AT_ONCE:
                wait(running, return_when=FIRST_COMPLETED)
            started.append((check.name, about, workers.call(f"{check.name} {about}", work, limit)))
    for name, about, future in started:
        yield _result(name, about, future)


def _works(check: DoctorCheck, installation: Installation) -> Iterator[tuple[str, Work]]:
    """Yield what a check examines, and the calls that do it."""
    if check.each is None:
        yield "", lambda: tuple(check.examine(installation))
        return
    try:
        things = check.each(installation)
    except Exception as error:  # it is told as the check's own fault
        yield "", partial(_fail, error)
        return
    for about, thing in things.items():
        yield about, partial(lambda thing: tuple(check.examine(installation, thing)), thing)


def _fail(error: Exception) -> tuple[Finding, ...]:
    raise error


def _result(name: str, about: str, future: "Future[tuple[Finding, ...]]") -> Examined:
    error = future.exception()
    if error is None:
        return Examined(check=name, about=about, findings=future.result())
    if isinstance(error, NotExamined):
        return Examined(check=name, about=about, skipped=str(error))
    return Examined(check=name, about=about, findings=(_broken(error),))


def _broken(error: BaseException) -> Finding:
    from pilotage.client import Unreachable

    if isinstance(error, Unreachable):
        return Finding(
            what=cited(error), why="it answered a moment ago, and does not now", mend="pilotage doctor, again"
        )
    if isinstance(error, TimeoutError):
        problem = f"the check did not end: {error}"
        return Finding(what=problem, why="whatever needs it hangs as well", mend="pilotage doctor, again")
    # A check must not hide behind its own fault.
    text = cited(f"{type(error).__name__}: {error}")
    return warning(
        f"the check itself failed: {text}", "nobody knows whether this works", "report it as a bug"
    )
