"""One process: the API and the loops, or some of them. Only this module imports all the parts."""

import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from pilotage.adapters.catalogues.loader import load as load_catalogue
from pilotage.adapters.computing.loader import SharedLoader
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.adapters.notifiers.sender import Sender
from pilotage.flow.background import BackgroundService
from pilotage.flow.calls.administration import federation_changes
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import secrets
from pilotage.flow.loops.adding_measurements import AddingMeasurements
from pilotage.flow.loops.announcing_ends import ANNOUNCE_ENDS, announcing_ends
from pilotage.flow.loops.archiving import archiving
from pilotage.flow.loops.loops import Loops
from pilotage.flow.loops.server_activity import server_activity
from pilotage.flow.loops.sole import (
    FORGET_EVENTS,
    NOTE_BREAKERS,
    RECORD_USE,
    forgetting_events,
    noting_breakers,
    recording_use,
)
from pilotage.flow.loops.wakeup_relay import WakeupRelay
from pilotage.flow.outside.kept_worlds import FOLDER, KeptWorlds
from pilotage.flow.outside.membership import Membership, new_name, this_process
from pilotage.flow.outside.operator_file import FileInbox
from pilotage.flow.outside.secret_keys import FILE as SECRET_KEYS
from pilotage.flow.outside.secret_keys import SecretKeys
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Step
from pilotage.flow.steps import STEPS
from pilotage.home_name import give_name
from pilotage.model.records.federation import Federation
from pilotage.model.records.notifications import NotificationLimits
from pilotage.model.values.durations import DAY
from pilotage.model.values.identity import Credential, Identity
from pilotage.ports.notifying import NotificationSender
from pilotage.ports.presence import Presence
from pilotage.server.api import create_app
from pilotage.server.api.edge.connections import LimitedProtocol, allow_connections
from pilotage.server.api.edge.pages import Pages
from pilotage.server.api.sign_in.loader import issuers_of, refuse_unknown_sites, signed_tokens
from pilotage.server.api_server import ApiServer
from pilotage.server.credential_ends import survey
from pilotage.server.service_manager import ServiceManager
from pilotage.server.web import OneTimeCode, make_pages
from pilotage.settings import Settings
from pilotage.store import ARCHIVE, NoFederation, Store
from pilotage.store.audit.commands import commanded
from pilotage.store.database.dialects import sqlite_file

if TYPE_CHECKING:
    from pilotage.server.api.sign_in.issuer_files import Issuer

log = logging.getLogger(__name__)

REQUEST_GRACE = 5
"""Seconds for running requests after SIGTERM or SIGINT."""

LAST_GRACE = 5.0
"""Seconds for all that stops after what was in hand."""

SWITCHED_AFTER = 0.001
"""Seconds after which a thread that computes gives way to another. An answer passes through half a dozen
threads' turns, and each waits so long while another thread works on a large request."""

COLLECTED_AFTER = (50_000, 20, 100)
"""Thresholds of garbage collection: how many new objects start a search of each generation."""

PRIORITY_FILES = ("dtr.state.prio", "transfers.prio")
"""Files in the server's home where operators leave priorities of transfers: the published name, and ours
(D9)."""

LOOPS = tuple(step.name for step in STEPS if step.has_loop)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket of the API. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Thousands of pilots may call within the same second.
    return socket.create_server((host, port), family=family, backlog=2048)


def runtime_of(
    store: Store,
    steps: Sequence[Step] = STEPS,
    url: str = "",
    home: Path | None = None,
    more_urls: Sequence[str] = (),
    sender: NotificationSender | None = None,
    presence: Presence | None = None,
) -> Runtime:
    """Return a runtime with this machine's ports: adapters, clock, threads, and files of ``home``.

    ``more_urls`` are other servers' URLs, which pilots try if this one does not answer. ``sender`` sends
    notifications. ``presence`` is this server among the servers of its store.
    """
    priorities = [FileInbox(home / name) for name in PRIORITY_FILES] if home else []
    load = SharedLoader(url)
    movers = partial(InstalledMovers, processes=True)
    return Runtime(
        store,
        steps,
        load=load,
        movers=movers,
        server_url=",".join((url, *more_urls)),
        priorities=priorities,
        load_catalogue=load_catalogue,
        presence=presence,
        secret_keys=SecretKeys(home / SECRET_KEYS if home else None),
        sender=sender,
    )


def collect_rarely() -> None:
    """Make Python search for garbage in cycles less often in this process.

    A pass makes hundreds of thousands of records that live until its end. Searching them again and again took
    a fifth of its time. Objects outside cycles are still freed immediately.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECTED_AFTER)
    sys.setswitchinterval(SWITCHED_AFTER)


def run(
    settings: Settings,
    federation: Federation | None,
    only: Sequence[str] = (),
    listener: socket.socket | None = None,
    *,
    path: str = "",
    force: bool = False,
    code: OneTimeCode | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. ``only`` names loops of ``LOOPS``; none means all.

    The server loads ``federation`` if the file at ``path`` has changed since its last load. ``force`` loads
    it even if work or files get lost, which otherwise raises WorkInTheWay. The API answers at ``listener``;
    without one there is no API. ``code`` opens the page once.
    """
    # A container's first process ignores signals without a handler, and the store may be away for long.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    issuers = issuers_of(settings.issuers)
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    give_name(settings.home)
    _keep_private(settings.store)
    if not Store.is_current(settings.store):
        _upgrade_apart(settings.store)
    name = new_name()
    store = Store.open(settings.store, server=name)
    try:
        if federation is not None:
            with commanded(store, "load", "federation", changes_alone=True, file=path):
                federation_changes.load(store, federation, path, force=force)
        elif not store.version():
            log.warning("nothing runs here: %s", NoFederation())
        refuse_unknown_sites(settings.issuers, issuers, store)
        _first_token(store, settings.home / "token")
        _run(store, settings, tuple(only) or LOOPS, listener, code, name, issuers)
    finally:
        store.close()


def _upgrade_apart(url: str) -> None:
    """Upgrade a store in a separate process, which takes the memory of migrations with it when it ends.

    Otherwise the server would keep that memory, a tenth of its idle size.
    """
    # Fork while nothing else runs: a fresh process would spend longer on imports than on the migration.
    process = multiprocessing.get_context("fork").Process(target=_upgrade, args=(url,))
    process.start()
    process.join()


def _upgrade(url: str) -> None:
    # The server opens the store next. It meets the same fault there, and reports it.
    with suppress(Exception):
        Store.open(url).close()


def _run(
    store: Store,
    settings: Settings,
    names: Sequence[str],
    listener: socket.socket | None,
    code: OneTimeCode | None,
    name: str,
    issuers: "Sequence[Issuer]",
) -> None:
    steps = [step for step in STEPS if step.name in names]
    membership = _membership(store, settings, steps, name, with_api=listener is not None)
    runtime = runtime_of(
        store, steps, settings.url, settings.home, settings.more_urls, _sender(settings, store), membership
    )
    runtime.kept_worlds = KeptWorlds(settings.home / FOLDER, settings.worlds_kept)
    services = _services(runtime, settings, steps, membership)
    ended, manager = threading.Event(), ServiceManager.take(os.environ)
    secrets.begin(runtime)

    # Handle the signal with the API too: its server passes the signal on at its end, and we must survive
    # that.
    def end(*_: object) -> None:
        if not ended.is_set():
            ended.set()
            manager.report_end()
            _end_within(settings.finish_within + REQUEST_GRACE + LAST_GRACE)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    pages = make_pages(runtime, (settings.url, *settings.more_urls), code, issuers)
    server = _server(runtime, pages, settings, end, issuers, manager) if listener else None
    collect_rarely()
    with _running(services, runtime):
        if server and listener:
            server.run(sockets=[listener])
        else:
            manager.report_ready("runs loops without the API")
            while not ended.wait(manager.pause):
                manager.beat()


@contextmanager
def _running(services: Sequence[BackgroundService], runtime: Runtime) -> Iterator[None]:
    """Run services until the block ends. The first sends the heartbeats, and stops last."""
    for service in services:
        service.start()
    try:
        yield
    finally:
        for service in reversed(services[1:]):
            service.stop()
        runtime.close()
        services[0].stop()


def _membership(
    store: Store, settings: Settings, steps: Sequence[Step], name: str, *, with_api: bool
) -> Membership:
    archive = (ARCHIVE,) if settings.archive else ()
    sole = (FORGET_EVENTS, NOTE_BREAKERS, RECORD_USE, ANNOUNCE_ENDS, *archive)
    url = settings.url if with_api else ""
    return Membership(store, this_process(store, name, (*(step.name for step in steps), *sole), url))


def _services(
    runtime: Runtime, settings: Settings, steps: Sequence[Step], membership: Membership
) -> tuple[BackgroundService, ...]:
    """Return the services beside the API, in the order of their start."""
    store = runtime.store
    relay = WakeupRelay(store, runtime.wakeups, STEPS, runtime.tell_news)
    sole = [
        forgetting_events(
            store,
            membership,
            settings.events_kept * DAY,
            settings.audit_kept * DAY,
            archives=bool(settings.archive),
        ),
        recording_use(store, membership),
        noting_breakers(store, membership, partial(circuit_breakers.note, runtime)),
        announcing_ends(runtime, membership, partial(survey, store, settings.url)),
    ]
    if settings.archive:
        ages = settings.archive_after * DAY, settings.audit_kept * DAY
        sole.append(archiving(store, membership, settings.archive, *ages))
    membership.report = partial(server_activity, runtime, steps, sole)
    if store.notices.are_carried:
        runtime.wakeups.has_turn = membership.has_turn
    membership.on_gone += [runtime.wakeups.wake_all, *(service.wake for service in sole)]
    loops = Loops(runtime, steps, settings.finish_within)
    # Services stop in reverse order: the last passes are measured too.
    return membership, AddingMeasurements(store), loops, relay, *sole


def _sender(settings: Settings, store: Store) -> Sender:
    return Sender(
        clock=store.clock,
        allowed_networks=settings.notify_networks,
        http=settings.notify_http,
        commands=settings.notify_commands,
        smtp=settings.smtp,
        mail_from=settings.mail_from,
        limits=NotificationLimits(
            per_address=settings.notify_per_address, per_person=settings.notify_per_person
        ),
    )


def _server(
    runtime: Runtime,
    pages: Pages,
    settings: Settings,
    signalled: Callable[[], None],
    issuers: "Sequence[Issuer]",
    manager: ServiceManager,
) -> ApiServer:
    LimitedProtocol.limit = allow_connections()
    on_loopback = settings.metrics_from == "loopback"
    app = create_app(
        runtime,
        pages,
        settings.metrics_token,
        metrics_on_loopback=on_loopback,
        tes=settings.tes,
        signed=signed_tokens(runtime, issuers),
    )

    def ending() -> None:
        signalled()
        # Streams never end by themselves: the server would wait for them.
        app.state.events.close()

    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=REQUEST_GRACE,
        **of_proxies(settings.proxies),
    )
    return ApiServer(config, ending, manager)


def of_proxies(networks: Sequence[str]) -> Mapping[str, Any]:
    """Return the web server's options: only proxies in these networks may name the client and its scheme.

    Other clients, even on this machine, could forge any address.
    """
    return {"proxy_headers": bool(networks), "forwarded_allow_ips": list(networks)}


def _end_within(seconds: float) -> None:
    """End this process after some seconds, even if a storage, a request or a database hangs.

    Nothing gets lost: uncommitted work never happened, and the next start repeats it.
    """

    def end() -> None:
        log.error("still busy %g s after the signal to end; ending now", seconds)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _keep_private(store: str) -> None:
    """Make a store file private. SQLite gives the files beside it the same mode."""
    if file := sqlite_file(store):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.chmod(0o600)


def _first_token(store: Store, path: Path) -> None:
    """Write the operator's token at the first start of a server here, readable by its user alone.

    A token that the store does not know is replaced: the store was restored, also if in another home. It is
    kept beside the new one, for it may be good for another server. If several start together, or die while
    starting, one complete file remains.
    """
    if path.exists():
        if store.tokens.find(path.read_text().strip()):
            return
        with suppress(FileNotFoundError):  # another one was faster
            path.rename(path.with_name(f"{path.name}.former"))
    with commanded(store, "make token", "person operator", role="operator"):
        token = store.tokens.create(Credential(role="operator", identity=Identity(name="operator")))
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(token)
    try:
        # Link instead of renaming: if another server was faster, its token stays.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    log.warning("an operator's token was written to %s", path)
