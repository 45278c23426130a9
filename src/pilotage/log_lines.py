"""The server's log: one record a line as text or JSON, without secrets, and without endless repetition."""

import json
import logging
import os
import re
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, cast, get_args

FIELDS = ("request", "person", "loop", "task", "job", "transfer", "queue", "site", "storage", "pilot")
"""The names that log lines carry, in this order."""

_bound: ContextVar[dict[str, str | int] | None] = ContextVar("pilotage_log", default=None)

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

FORMAT, LEVEL = "PILOTAGE_LOG_FORMAT", "PILOTAGE_LOG_LEVEL"
"""Variables that choose how a process logs. Its worker processes get them from it."""

ACCESS = "pilotage.access"
"""The log of requests."""

Access = Literal["off", "summary", "full"]
"""How requests are logged: not at all, as counts by the minute, or a line each."""

MOST_ALIKE = 5
"""Lines that differ in numbers alone, of which a window shows this many."""

WINDOW = 60.0
"""Seconds after which the others are counted in one line."""

MOST_KEYS = 1000
"""Kinds of lines that are counted at once. Those that came first are forgotten."""

MOST_DURATIONS = 10_000
"""Durations of a route and status in a minute that count for their median: the last ones."""

LONGEST = 20_000
"""Most characters of a message, and of a traceback."""

_DIGITS = re.compile(r"[0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SECRETS = re.compile(
    r"(?i)(?P<kept>\b(?:bearer|basic)\s+(?=\S{16})|"
    r"[?&;](?:code|authz|(?:[a-z0-9]+[-_])*(?:token|key|signature|sig|secret|password))=)"
    r"[^\s'\"&;,)]+"
)
_PASSWORDS = re.compile(r"(?P<kept>://[^\s/:@]*:)[^\s/]+(?=@)")


@contextmanager
def logged(form: Format, level: Level, *, access: Access) -> Iterator[None]:
    """Log this process to standard error within a block.

    Libraries log from warnings on: asyncssh writes a dozen lines for each call through a tunnel.
    """
    handler = _Lines()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    repetition, requests = Repetition(handler.emit), RequestSummary(handler.emit)
    handler.addFilter(repetition)
    if access == "summary":
        handler.addFilter(requests)
    root, levels = logging.getLogger(), {"pilotage": _number(level)}
    shown = logging.CRITICAL if access == "off" else logging.INFO
    levels |= {"": max(logging.WARNING, _number(level)), ACCESS: shown}
    before = {name: logging.getLogger(name).level for name in levels}, root.handlers[:], threading.excepthook
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    root.handlers[:] = [handler]
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_fault
    try:
        with _exported({FORMAT: form, LEVEL: level}):
            yield
    finally:
        repetition.tell_all()
        requests.write_lines()
        logging.captureWarnings(False)
        own_levels, root.handlers[:], threading.excepthook = before
        for name, number in own_levels.items():
            logging.getLogger(name).setLevel(number)


@contextmanager
def _exported(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment within a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def logged_as_parent() -> Iterator[None]:
    """Log a worker process within a block as the process does that started it, to the same stream."""
    form, level = (os.environ.get(name, "") for name in (FORMAT, LEVEL))
    if form not in get_args(Format) or level not in get_args(Level):
        yield
        return
    with logged(cast(Format, form), cast(Level, level), access="off"):
        yield


def _number(level: Level) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


class _Lines(logging.Handler):
    """Writes each record as one call, so that lines of threads never mix."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record whatever the filters say."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class TextFormatter(logging.Formatter):
    """A line for people. Lines of a traceback follow it, each after two blanks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        fields = " ".join(f"{name}={_one_line(str(value))}" for name, value in fields_of(record).items())
        line = f"{_moment(record)} {record.levelname} {record.name}: {_one_line(message_of(record))}"
        lines = [f"{line} [{fields}]" if fields else line]
        lines += [f"  {_one_line(part)}" for part in _traceback(self, record).splitlines()]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """A JSON object in one line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object of a record."""
        entry: dict[str, object] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
            **fields_of(record),
            **getattr(record, "access", {}),
        }
        if exception := _traceback(self, record):
            entry["exception"] = exception
        return json.dumps(entry, default=str)


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return what a record concerns: what its call named, and what was bound around it."""
    values = {**current(), **{name: vars(record)[name] for name in FIELDS if name in vars(record)}}
    return {name: values[name] for name in FIELDS if values.get(name) not in (None, "")}


def message_of(record: logging.LogRecord) -> str:
    """Return the message of a record without secrets."""
    return without_secrets(_text(record))[:LONGEST]


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # values that do not fit: a line is still better than none
        return str(record.msg)


def without_secrets(text: str) -> str:
    """Return a text with asterisks for tokens, and for passwords and keys of URLs."""
    return _PASSWORDS.sub(r"\g<kept>***", _SECRETS.sub(r"\g<kept>***", text))


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    return without_secrets(formatter.formatException(record.exc_info))[-LONGEST:]


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


@dataclass(slots=True)
class _LineGroup:
    """Lines alike: what stays of the last one, how many came since the window began, and when it began."""

    since: float
    count: int = 0
    last: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _Durations:
    """Durations in ms of requests alike: how many, the longest, and the last ones."""

    count: int = 0
    worst: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_DURATIONS))


class Repetition(logging.Filter):
    """Shows the first lines that are alike, and counts the others in one line a minute.

    Alike are lines of one logger and level whose messages differ in numbers alone. Requests are all shown,
    and so are lines to debug.
    """

    def __init__(
        self, write: Callable[[logging.LogRecord], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._write = write
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: OrderedDict[tuple[str, int, str], _LineGroup] = OrderedDict()
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show a record."""
        if record.name == ACCESS or record.levelno <= logging.DEBUG:
            return True
        text = _text(record)
        key = (record.name, record.levelno, _DIGITS.sub("#", text[:500]))
        now = self._clock()
        with self._lock:
            over = self._over(now)
            group = self._groups.setdefault(key, _LineGroup(now))
            group.count += 1
            # Not the record itself: its traceback would keep much in memory.
            origin = {name: vars(record)[name] for name in ("name", "levelno", "levelname")}
            # Another thread tells it, whose own work it does not concern.
            group.last = {"msg": text, **origin, **dict.fromkeys(FIELDS, ""), **fields_of(record)}
            is_shown = group.count <= MOST_ALIKE
            if len(self._groups) > MOST_KEYS:
                over.append(self._groups.popitem(last=False)[1])
            if not is_shown:
                self._wait()
        self._tell(over)
        return is_shown

    def tell_all(self) -> None:
        """Tell at once what was left out, because the process ends."""
        with self._lock:
            over, self._groups = [*self._groups.values()], OrderedDict()
            if self._timer:
                self._timer.cancel()
        self._tell(over)

    def _over(self, now: float) -> list[_LineGroup]:
        """Take out what began more than a window ago: the first ones."""
        over = []
        while self._groups and now - next(iter(self._groups.values())).since >= WINDOW:
            over.append(self._groups.popitem(last=False)[1])
        return over

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(WINDOW, self._awake)
            self._timer.daemon = True
            self._timer.start()

    def _awake(self) -> None:
        with self._lock:
            self._timer = None
            over = self._over(self._clock())
            if any(group.count > MOST_ALIKE for group in self._groups.values()):
                self._wait()
        self._tell(over)

    def _tell(self, over: list[_LineGroup]) -> None:
        for group in over:
            if (omitted := group.count - MOST_ALIKE) > 0:
                text = f"{group.last['msg']} (… {omitted:,} times more in the last minute)"
                self._write(logging.makeLogRecord({**group.last, "msg": text}))


class RequestSummary(logging.Filter):
    """Replaces the lines of requests by one a minute for each route and status.

    It has their number, the median of the last durations, and the longest duration.
    """

    def __init__(self, write: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._write = write
        self._lock = threading.Lock()
        self._groups: dict[tuple[str, str, int], _Durations] = {}
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show a record: count a request instead."""
        if record.name != ACCESS:
            return True
        fields = vars(record)["access"]
        key, took = (fields["method"], fields["route"], fields["status"]), fields["ms"]
        with self._lock:
            group = self._groups.setdefault(key, _Durations())
            group.count += 1
            group.worst = max(group.worst, took)
            group.last.append(took)
            if self._timer is None:
                self._timer = threading.Timer(WINDOW, self.write_lines)
                self._timer.daemon = True
                self._timer.start()
        return False

    def write_lines(self) -> None:
        """Write the lines of the requests so far, and begin to count anew."""
        with self._lock:
            groups, self._groups = self._groups, {}
            if self._timer:
                self._timer.cancel()
            self._timer = None
        for (method, route, status), group in sorted(groups.items()):
            fields = {"method": method, "route": route, "status": status, "count": group.count}
            middle = sorted(group.last)[len(group.last) // 2]
            fields |= {"median_ms": middle, "worst_ms": group.worst}
            line = f"{method} {route} {status}: {group.count:,}; median {middle} ms, worst {group.worst} ms"
            record = {"name": ACCESS, "levelno": logging.INFO, "levelname": "INFO", "msg": line}
            self._write(logging.makeLogRecord({**record, "access": fields}))


def _log_thread_fault(fault: threading.ExceptHookArgs) -> None:
    if fault.exc_value is None or fault.exc_type is SystemExit:
        return
    info: tuple[type[BaseException], BaseException, TracebackType | None]
    info = (fault.exc_type, fault.exc_value, fault.exc_traceback)
    name = fault.thread.name if fault.thread else "a thread"
    logging.getLogger("pilotage").error("%s ended by a fault that nobody expected", name, exc_info=info)


@contextmanager
def bound(**fields: str | int) -> Iterator[None]:
    """Let the lines of a block carry these fields, also those of threads that get its context."""
    before = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(before)


def note(**fields: str | int) -> None:
    """Add fields to the innermost block: what became known meanwhile. Outside of blocks it does nothing."""
    block = _bound.get()
    if block is not None:
        block.update(fields)


def current() -> Mapping[str, str | int]:
    """Return the fields of the innermost block."""
    return _bound.get() or {}
