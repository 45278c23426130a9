"""Documents of the server as records and tables, which notebooks show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from pilotage.explain import remarks
from pilotage.explain.layout import GAP, Column, table_lines
from pilotage.model.rules.plain_states import job_state
from pilotage.model.values.phrases import moment, not_installed, plural

from .errors import BadAnswer, MissingField, Refused, error_of, refusal

if TYPE_CHECKING:
    import pandas

MOST_SHOWN = 60
"""Most rows of a table that a notebook shows."""

LONGEST_CELL = 200
"""Most characters of a cell."""

FIRST = ("id", "name", "state", "jobs", "index", "queue", "error", "reason")
"""The first columns of a table as text, if it has them."""

TIMES = frozenset(
    ("created", "since", "started", "ended", "time", "heartbeat", "until", "made", "seen", "set_at")
)
LEAST_TIME = 1e9
"""Fields with a moment in s since 1970, if it is this large."""

FEW_ROWS, MOST_COLUMNS, SHORT = 10, 8, 40
"""Most rows and columns of a table as text, and characters of a cell there."""


def required(answer: Any, fields: Iterable[str]) -> Any:
    """Return an answer that has these fields. Raises ``BadAnswer``."""
    document = _document(answer)
    if missing := [field for field in fields if field not in document]:
        raise MissingField(f"the server's answer lacks {', '.join(missing)}")
    return answer


def _document(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise BadAnswer("the server's answer is no document that this client knows")
    return answer


def record_or_none(answer: Any) -> "Record | None":
    """Return an answer that may have no content. Raises ``BadAnswer``."""
    return None if answer is None else Record(answer)


def submission(answer: Any, sent: int) -> "Record":
    """Return the answer to a submission of so many tasks.

    Raises ``Refused`` if no task was accepted and no stage skipped, and ``BadAnswer``.
    """
    answer_record = outcome(answer, sent)
    for task in answer_record["tasks"]:
        required(task, ("id",))
    if not answer_record["tasks"] and not answer_record.get("stages"):
        raise refusal(answer)
    return answer_record


def outcome(answer: Any, sent: int) -> "Record":
    """Return the answer with the outcome of each of so many tasks.

    Raises ``Refused`` if the whole request has faults, and ``BadAnswer``.
    """
    if isinstance(answer, dict) and "tasks" not in answer and (error := error_of(422, "", answer)):
        raise error
    record = Record(required(answer, ("tasks", "refused")))
    check_places((task["index"] for task in record["refused"]), sent)
    return record


def check_places(places: Iterable[int], sent: int) -> None:
    """Raise ``BadAnswer`` if an answer is about something that is not among so many that were sent."""
    if not all(0 <= place < sent for place in places):
        raise BadAnswer("the server's answer refuses something that it was not sent")


class Record(Mapping[str, Any]):
    """One document of the server: its fields are keys, and attributes too."""

    def __init__(self, document: Any) -> None:
        """Take a document. Raises ``BadAnswer`` if it is none."""
        self._document = _document(document)

    def __getitem__(self, field: str) -> Any:
        try:
            return self._document[field]
        except KeyError:
            raise MissingField(f"the server's answer lacks {field}") from None

    def __getattr__(self, field: str) -> Any:
        if field.startswith("_") or field not in self._document:
            raise AttributeError(f"{type(self).__name__} has no field {field!r}")
        return self._document[field]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._document})

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        lines = self._document.get("lines") or []
        fields = ", ".join(
            f"{name}={_cell(value)}" for name, value in self._document.items() if value is not lines
        )
        return "\n".join([f"{type(self).__name__}({fields})", *map(str, lines)])

    def display(self, field: str) -> Any:
        """Return a field as tables show it."""
        return self.get(field)

    def to_dict(self) -> dict[str, Any]:
        """Return the server's document."""
        return self._document

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{_html(name)}</th><td>{_html(value, name)}</td></tr>"
            for name, value in self._document.items()
        )
        return f"<table>{rows}</table>"


class ExplainedRecord(Record):
    """An explanation: ``lines`` is its text, which notebooks show."""

    def __repr__(self) -> str:
        return "\n".join(self["lines"])

    def _repr_html_(self) -> str:
        return f"<pre>{_html(repr(self), most=None)}</pre>"


class LogsRecord(Record):
    """What jobs wrote: its text is that of the logs, which notebooks show."""

    def __repr__(self) -> str:
        excerpts = self["jobs"] if "jobs" in self else [{"logs": self["logs"]}]
        return "\n".join(line for excerpt in excerpts for line in _log_lines(excerpt))

    def _repr_html_(self) -> str:
        return f"<pre>{_html(repr(self), most=None)}</pre>"


def _log_lines(excerpt: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a job's logs: of all its attempt wrote, or head and tail."""
    if job := excerpt.get("job"):
        yield f"== job {job['id']}, attempt {excerpt['attempt']}, {job_state(job['state'])} =="
    for log in excerpt["logs"]:
        yield f"-- {log['stream']} --"
        if "parts" in log:
            yield "".join(part["text"] for part in log["parts"]).rstrip("\n")
            continue
        yield from log["head"]
        if log["left_out"]:
            yield f"[{plural(log['left_out'], 'line')} between]"
        yield from log["tail"]
    if not excerpt["logs"]:
        yield "(no output is kept)"


class RemarkRecord(Record):
    """Why a record does not go on, who can mend that and how, or what else is known of it."""

    kind: str
    text: str
    rule: str
    mend: str
    action: str
    command: str

    def __repr__(self) -> str:
        return "\n".join(remarks.lines([self]))


Row = TypeVar("Row", bound=Record)


class Table(Sequence[Row], Generic[Row]):
    """Rows of one answer: a page of a list. ``document`` is the whole answer, which may say more."""

    def __init__(self, document: Any, name: str, rows: Sequence[Row]) -> None:
        self.document: dict[str, Any] = document
        self._name = name
        self._rows = rows

    @classmethod
    def of(cls, answer: Any, name: str, make: Callable[[Any], Row]) -> Self:
        """Return the rows under a name of an answer. Raises ``BadAnswer`` if there are none."""
        rows = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise BadAnswer(f"the server's answer is no list of {name}")
        return cls(answer, name, [make(row) for row in rows])

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        count = plural(len(self), self._name.removesuffix("s"))
        if not self._rows:
            return count
        names = [name for name in self._names() if any(_is_short(row.display(name)) for row in self._rows)]
        names = sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))[
            :MOST_COLUMNS
        ]
        rows = [[_shown(row.display(name), name) for name in names] for row in self._rows[:FEW_ROWS]]
        lines = table_lines([Column(name) for name in names], rows, 0)
        rest = len(self) - FEW_ROWS
        more = [f"and {rest} more"] if rest > 0 else []
        return "\n".join([count, *(GAP.join(line.cells).rstrip() for line in lines), *more])

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @property
    def next(self) -> str:
        """The ``after`` of the page that follows; empty on the last one."""
        return str(self.document.get("next") or "")

    @property
    def total(self) -> int | None:
        """How many rows all pages have; None where the server does not count them."""
        number = self.document.get("total")
        return number if isinstance(number, int) else None

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are in each state."""
        numbers = self.document.get("counts")
        return numbers if isinstance(numbers, dict) else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the server's document, with its fields besides the rows."""
        return self.document

    def df(self) -> "pandas.DataFrame":
        """Return a data frame, a row each. It needs the extra ``pandas``."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise Refused(not_installed("pandas", "pandas")) from None

        return pd.DataFrame([row.to_dict() for row in self._rows])

    def _repr_html_(self) -> str:
        names = self._names()
        head = "".join(f"<th>{_html(name)}</th>" for name in names)
        rows = (
            "".join(f"<td>{_html(row.display(name), name)}</td>" for name in names)
            for row in self._rows[:MOST_SHOWN]
        )
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        rest = len(self) - MOST_SHOWN
        more = f"<p>and {rest} more {_html(self._name)}</p>" if rest > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 3]}..."


def _is_short(value: object) -> bool:
    return value not in (None, "", [], {}) and len(_shown(value)) <= SHORT


def _shown(value: object, name: str = "") -> str:
    """Return a value as people read it: counts as ``3 running, 5 finished``, lists and fields with commas."""
    if value is None:
        return ""
    if name in TIMES and isinstance(value, int | float) and value > LEAST_TIME:
        return moment(value)
    if isinstance(value, Mapping):
        numbers = all(type(part) is int for part in value.values())
        parts = (f"{part} {name}" if numbers else f"{name}={_shown(part)}" for name, part in value.items())
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _html(value: object, name: str = "", most: int | None = LONGEST_CELL) -> str:
    from html import escape  # only notebooks load it

    text = _shown(value, name)
    return escape(text if most is None or len(text) <= most else f"{text[: most - 3]}...")
