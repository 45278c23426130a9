"""Acts of commands that open the store themselves, on the server's machine."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager

from pilotage.model.records.audit import AuditValue
from pilotage.store.audit.acts import Act, Description
from pilotage.store.database.acts import acting
from pilotage.store.store import Store


@contextmanager
def commanded(
    store: Store, verb: str, record: str = "", *, changes_alone: bool = False, **after: AuditValue
) -> Iterator[None]:
    """Let the block be an act of the machine's user. It leaves one record, unless the block fails.

    With ``changes_alone`` it leaves none if it changes nothing.
    """
    act = Act(
        store.clock,
        store.database.server,
        describe=lambda: Description(verb=verb, record=record, after=after),
    )
    act.note(person=_user())
    with acting(act):
        yield
    if act.is_due and not changes_alone:
        store.audit.write(act)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return "unknown"
