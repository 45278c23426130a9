"""One process: the API and the loops, or some of them. This is the only place that knows all the parts."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import uvicorn

from pilotage.api import create_app
from pilotage.flow import loops
from pilotage.flow import wakeups as bells
from pilotage.flow.step import Pass
from pilotage.flow.steps import broker, finish, lift, split, watch
from pilotage.flow.steps.provision import Provisioner
from pilotage.flow.steps.stage import Stager
from pilotage.model.federation import Federation
from pilotage.model.identity import Credential, Identity
from pilotage.settings import Settings
from pilotage.store import NoFederation, Store

log = logging.getLogger(__name__)

LOOPS = ("split", "broker", "lift", "stage", "provision", "finish", "watch")


def listen(host: str, port: int) -> socket.socket:
    """Where the API will answer, taken before anything else is done. Raises OSError where it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def run(
    settings: Settings,
    federation: Federation | None,
    only: Sequence[str] = (),
    listener: socket.socket | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. ``only`` names loops of :data:`LOOPS`; none means all.

    The API answers at the ``listener``; without one there is none.
    """
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store.open(settings.store)
    try:
        if federation is not None and federation != _known(store):
            store.save_federation(federation, "up")
        _first_token(store, settings.home / "token")
        _run(store, settings, tuple(only) or LOOPS, listener)
    finally:
        store.close()


def _run(store: Store, settings: Settings, names: Sequence[str], listener: socket.socket | None) -> None:
    ringing = bells.Bells(names)
    store.listeners.append(ringing.ring_for)
    stager = Stager(store, on_end=partial(ringing.ring, "stage"))
    runs: dict[str, Callable[[Pass], int]] = {
        "split": partial(split.run, store),
        "broker": partial(broker.run, store),
        "lift": partial(lift.run, store),
        "stage": stager.run,
        "provision": Provisioner(store, settings.url).run,
        "finish": partial(finish.run, store),
        "watch": partial(watch.run, store),
    }
    running = loops.Loops(store, {name: runs[name] for name in names}, ringing)
    ended = threading.Event()
    # Also with the API: its server gives a signal on when it has ended, and that must not be the end of us.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    running.start()
    try:
        if listener:
            _serve(store, listener, ringing)
        else:
            ended.wait()
    finally:
        running.stop()
        stager.stop()


def _serve(store: Store, listener: socket.socket, ringing: bells.Bells) -> None:
    config = uvicorn.Config(
        create_app(store, ringing.ring),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _known(store: Store) -> Federation | None:
    try:
        return store.federation()
    except NoFederation:
        return None


def _first_token(store: Store, path: Path) -> None:
    """The operator's token, made when a server first runs here, readable by its user alone.

    Of several that start at once, or were killed while starting, one leaves a whole file.
    """
    if path.exists():
        return
    token = store.tokens.create(Credential(role="operator", identity=Identity(name="operator")))
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(token)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    log.warning("an operator's token was written to %s", path)
