"""Change the priorities of live transfers for an operator, through a call or a file (D9)."""

import logging
from collections.abc import Sequence
from itertools import groupby

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.values.step_names import STAGE
from pilotage.ports.operator_file import Inbox

log = logging.getLogger(__name__)


def set_priorities(runtime: Runtime, priorities: Sequence[tuple[int, int]], actor: str) -> list[int]:
    """Give transfers, by id, a priority of 1..100. Return the ids of live ones that now have it."""
    accepted = _commit(runtime, priorities, actor)
    runtime.wakeups.wake(STAGE)
    return accepted


def take_files(runtime: Runtime) -> None:
    """Apply the priority files that an operator left in the server's home, if there are any (D9).

    Bad lines are logged by number, and the others apply. An unreadable file is logged and marked as read.
    """
    for inbox in runtime.priorities:
        _take(runtime, inbox)


def _take(runtime: Runtime, inbox: Inbox) -> None:
    try:
        text = inbox.read()
        if text is None:
            return
        priorities, errors = read_priorities(text)
        accepted = set(_commit(runtime, priorities, "operator"))
        errors += [f"transfer {id_} is not live" for id_, _ in priorities if id_ not in accepted]
    except ValueError as error:
        errors = [str(error)]
    except OSError as error:
        log.warning("priorities of transfers, %s: %s", inbox.name, error)
        return
    for message in errors:
        log.warning("priorities of transfers, %s: %s", inbox.name, message)
    try:
        inbox.done()
    except OSError as error:
        log.warning("priorities of transfers, %s: %s; the file is read again", inbox.name, error)


def read_priorities(text: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Parse lines of ``ID PRIORITY``. Return the settings in order, and one error per bad line (D9).

    Text after a ``#`` is a comment. Empty lines are ignored. An error gives its line number, from 1, and what
    would be right.
    """
    priorities: list[tuple[int, int]] = []
    errors: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            errors.append(f"line {number}: {line.strip()!r} is not a transfer's id and a priority")
        elif not 0 < int(words[0]) < 2**63:
            errors.append(f"line {number}: {words[0]} is not a transfer's id")
        elif not 1 <= int(words[1]) <= 100:
            errors.append(f"line {number}: priority {words[1]} is not within 1..100")
        else:
            priorities.append((int(words[0]), int(words[1])))
    return priorities, errors


def _commit(runtime: Runtime, priorities: Sequence[tuple[int, int]], actor: str) -> list[int]:
    def by_priority(pair: tuple[int, int]) -> int:
        return pair[1]

    # Of several lines for one transfer the last counts.
    latest = dict(priorities)
    changes = tuple(
        Touch(kind="transfer", ids=tuple(id_ for id_, _ in pairs), changes={"priority": priority})
        for priority, pairs in groupby(sorted(latest.items(), key=by_priority), key=by_priority)
    )
    decision = Decision(step="priorities", time=runtime.clock(), seed=runtime.seeds(), changes=changes)
    committed = runtime.store.commit(decision, actor)
    return sorted(id_ for ids in committed.accepted for id_ in ids)
