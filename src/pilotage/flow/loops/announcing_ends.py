"""Look when tokens and certificates end, and notify those who can renew them."""

from collections.abc import Callable, Iterator

from pilotage.flow.loops.sole import Pause, SoleLoop
from pilotage.flow.runtime import Runtime
from pilotage.model.records.notifications import Notify
from pilotage.model.rules.credential_ends import CredentialEnd
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks import notifying
from pilotage.ports.presence import Presence
from pilotage.store import Store

ANNOUNCE_ENDS = "announce-ends"
"""The name of the loop, and who its notifications are by."""

PERIOD = 3600.0
"""Seconds between two looks."""

MOST_ENDS = 1000
"""Most ends that are kept, the next ones."""


def announcing_ends(
    runtime: Runtime, presence: Presence, survey: Callable[[], Iterator[CredentialEnd | None]]
) -> SoleLoop:
    """Return the loop that keeps what a ``survey`` sees, and notifies people of what ends soon."""

    def work(pause: Pause) -> None:
        ends: list[CredentialEnd] = []
        for credential in survey():
            if credential is not None:
                ends.append(credential)
            elif pause(0.0):
                return
        announce(runtime, ends)

    return SoleLoop(runtime.store, presence, ANNOUNCE_ENDS, PERIOD, work)


def announce(runtime: Runtime, ends: list[CredentialEnd]) -> None:
    """Keep the next of these ends, and make the notifications that are due now."""
    store, world = runtime.store, runtime.world()
    nearest = {(end.kind, end.name): end for end in sorted(ends, key=lambda end: end.end)[:MOST_ENDS]}
    known_ends = store.credential_ends.replace([*nearest.values()], world.time)
    last = store.last_done(notifying.EXPIRY) or None
    news = [
        (credential, receivers(store, credential))
        for credential in known_ends
        if credential.is_due(last or 0.0, world.time)
    ]
    decision = notifying.expiry(world, last, news)
    store.commit(decision, ANNOUNCE_ENDS)


def receivers(store: Store, credential: CredentialEnd) -> list[tuple[Identity, Notify]]:
    """Return who hears of an end, and where: the bearer of a token, else the operators with tokens."""
    bearer = [Identity(name=credential.holder, vo=credential.vo)] if credential.holder else []
    return _receivers(store, bearer) or _receivers(store, _operators(store))


def _operators(store: Store) -> list[Identity]:
    tokens = (token for token in store.tokens.people() if token.role == "operator")
    return [Identity(name=name, vo=vo) for name, vo in sorted({(token.name, token.vo) for token in tokens})]


def _receivers(store: Store, people: list[Identity]) -> list[tuple[Identity, Notify]]:
    return [
        (person, settings) for person in people for settings in store.notification_settings.of(person).notify
    ]
