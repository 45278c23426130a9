"""The page of a large federation: the first byte and the size of each view at an idle server.

A task has 100,000 jobs at 5,000 queues of 500 sites. Some of its jobs failed, with 1,000 different errors.
The store knows 30 days of 50 shares, and of 200 errors a day of each of ten people.
"""

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
from sqlalchemy import Connection, text

from pilotage.demo import service
from pilotage.model.records.counters import JOBS_BY_QUEUE, JOBS_BY_TASK
from pilotage.model.records.federation import ComputingElement, Federation, Link, Queue, Site, Storage
from pilotage.store import Store
from pilotage.store.jobs.daily_failures import daily_failures
from pilotage.store.people.share_hours import share_hours

from . import house, stored_jobs

JOBS = 100_000
QUEUES = 5_000
SITES = 500
REPEATS = 3

VIEWS = {
    "now": "/",
    "tasks": "/tasks",
    "task_why": "/tasks/1",
    "task_jobs": "/tasks/1/jobs",
    "task_jobs_last": f"/tasks/1/jobs?after={JOBS - 50}",
    "task_jobs_failed": "/tasks/1/jobs?failed=true",
    "task_jobs_sorted": "/tasks/1/jobs?sort=memory",
    "task_data": "/tasks/1/data",
    "task_log": "/tasks/1/log",
    "task_use": "/tasks/1/use",
    "job": "/jobs/77777",
    "job_log": "/jobs/77777/log",
    "sites": "/sites",
    "site": "/sites/site-0077",
    "queues": "/queues",
    "queues_last": "/queues?after=queue-4899",
    "queue": "/queues/queue-0777",
    "storages": "/storages",
    "storage": "/storages/disk-0077",
    "shares": "/shares",
    "shares_month": "/shares?days=30",
    "failures": "/failures",
    "failures_month": "/failures?days=30",
    "stuck": "/stuck",
    "pilots": "/pilots",
    "transfers": "/transfers",
    "workflows": "/workflows",
    "admin": "/admin",
    "admin_federation": "/admin/federation",
    "admin_history": "/admin/history",
    "drain": "/queues/queue-0777/drain",
    "retry": "/tasks/1/retry",
}
"""Names of figures, and the addresses of their views."""


@dataclass(frozen=True, slots=True)
class Read:
    """A page that was read: ms to its first byte, processor time of the server in ms, and kB as sent."""

    ms: float
    cpu_ms: float
    kb: float


def figures(databases: tuple[house.Database, ...] = ("sqlite", "postgresql")) -> dict[str, float]:
    """``page_VIEW_ms`` to the first byte, ``page_VIEW_cpu_ms`` of the server and ``page_VIEW_kb``; the most
    of all views.

    Figures of PostgreSQL end with ``_postgresql``; their processor time is without the database's.
    """
    found: dict[str, float] = {}
    for database in databases:
        suffix = "" if database == "sqlite" else f"_{database}"
        with tempfile.TemporaryDirectory(prefix="pilotage-bench-") as folder:
            place = Path(folder)
            place.chmod(0o755)
            with house.store(database, place) as url:
                _fill(url)
                # The other loops would start the jobs that wait.
                with service.running(None, place / "home", None, url, "--only", "watch") as server:
                    browser = Browser(server)
                    measured = {name: _view(browser, path) for name, path in VIEWS.items()}
        for name, read in measured.items():
            found |= {f"page_{name}_{of}{suffix}": value for of, value in asdict(read).items()}
        found[f"page_slowest_ms{suffix}"] = max(read.ms for read in measured.values())
        found[f"page_slowest_cpu_ms{suffix}"] = max(read.cpu_ms for read in measured.values())
        found[f"page_largest_kb{suffix}"] = max(read.kb for read in measured.values())
    return found


def _fill(url: str) -> None:
    store = Store.open(url)
    store.save_federation(federation(), "bench")
    stored_jobs.fill(store, JOBS, per_task=JOBS)
    store.database.write(_spread)
    store.database.write(_fill_past)
    store.close()


def _fill_past(connection: Connection) -> None:
    """Fill the last 30 days: 50 shares in each hour, and 200 errors of each of ten people in each day."""
    hour, day = int(time.time() // 3600), int(time.time() // 86_400)
    shares = [
        {"hour": hour - at, "share": f"share-{share:02}", "samples": 12, "running": 12.0 * share}
        | {"used": 12 * 0.02, "target": 0.02}
        for at in range(30 * 24)
        for share in range(50)
    ]
    failed = [
        {"day": day - at, "vo": "bench", "owner": f"person-{person}", "queue": f"queue-{error:04}"}
        | {"error": f"OSError: disk # of {error} is full", "attempts": 1 + (at + error) % 50}
        for at in range(30)
        for person in range(10)
        for error in range(200)
    ]
    connection.execute(share_hours.insert(), shares)
    connection.execute(daily_failures.insert(), failed)


def federation() -> Federation:
    """Return a federation of many queues, with links from each site to some others."""
    sites = [f"site-{number:04}" for number in range(SITES)]
    element = ComputingElement(max_pilots=100)
    links = [(one, sites[(at + step) % SITES]) for at, one in enumerate(sites) for step in (1, 2, 3, 50)]
    return Federation(
        name="bench",
        sites=tuple(Site(name=name, nucleus=at < 5) for at, name in enumerate(sites)),
        storages=tuple(
            Storage(name=f"disk-{at:04}", site=name, url=f"memory://{name}") for at, name in enumerate(sites)
        ),
        queues=tuple(
            Queue(
                name=f"queue-{number:04}",
                site=sites[number % SITES],
                storage=f"disk-{number % SITES:04}",
                max_memory=4000,
                computing_element=element,
            )
            for number in range(QUEUES)
        ),
        links=tuple(Link(source=one, destination=other, throughput_1h=10.0) for one, other in links),
    )


_QUEUE = f"substr('0000' || (id % {QUEUES}), -4)"
_QUEUE_POSTGRESQL = f"lpad((id % {QUEUES})::text, 4, '0')"


def _spread(connection: Connection) -> None:
    """Spread the jobs over all queues; let some fail, run and wait, and let the counters agree."""
    number = _QUEUE if connection.dialect.name == "sqlite" else _QUEUE_POSTGRESQL
    for statement in (
        f"UPDATE jobs SET queue = 'queue-' || {number}, max_rss = id % 4000",
        "UPDATE jobs SET state = 'failed', exit_code = 1, error = 'payload exited with code 1' || "
        "'\nOSError: disk ' || (id % 1000) || ' is full' WHERE id % 20 = 0",
        "UPDATE jobs SET state = 'running', ended = NULL, wall_seconds = NULL WHERE id % 20 = 1",
        "UPDATE jobs SET state = 'activated', started = NULL, ended = NULL, wall_seconds = NULL, "
        "pilot = NULL WHERE id % 20 IN (2, 3)",
        "UPDATE tasks SET state = 'running'",
    ):
        connection.execute(text(statement))
    by_queue, by_task = (JOBS_BY_QUEUE, "jobs", "queue", "share"), (JOBS_BY_TASK, "jobs", "task", "''")
    stored_jobs.count_again(connection, by_queue, by_task)


def _view(browser: "Browser", path: str) -> Read:
    """Return the median of each figure of a page."""
    found = [browser.read(path) for _ in range(REPEATS)]
    ms, cpu_ms, kb = (statistics.median(getattr(one, of) for one in found) for of in ("ms", "cpu_ms", "kb"))
    return Read(ms, cpu_ms, kb)


class Browser:
    """Reads pages of a server in a session of its operator."""

    def __init__(self, server: service.DemoServer) -> None:
        self._process = psutil.Process(server.pid)
        address = urlsplit(server.url)
        self._connection = HTTPConnection(str(address.hostname), address.port, timeout=120)
        form = urlencode({"token": server.token, "next": "/"})
        self._connection.request(
            "POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"}
        )
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]
        self.read("/sign-in")

    def read(self, path: str) -> Read:
        """Read a page."""
        used, begun = self._cpu_seconds(), time.monotonic()
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        seconds = time.monotonic() - begun
        size = len(answer.read())
        if answer.status != 200:
            raise service.ServerError(f"{path}: {answer.status}")
        return Read(1000 * seconds, 1000 * (self._cpu_seconds() - used), size / 1000)

    def _cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)
