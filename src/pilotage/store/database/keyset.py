"""Pages of lists by key: each begins after the last row of the page before.

The last page costs as much as the first, and rows added or deleted between two pages shift no page.
"""

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from sqlalchemy import ColumnElement, Connection, Double, Select, String, and_, bindparam, or_

from pilotage.model.values.paths import is_text
from pilotage.model.values.types import LARGEST_ID
from pilotage.store.database.errors import BadCursor

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ListPage(Sequence[Row], Generic[Row]):
    """A page of a list, and counts over all its pages.

    ``total`` counts the rows of all pages (None: that takes too long); ``counts`` has the rows by state,
    other states too. ``next`` is the cursor of the following page; empty on the last one.
    """

    rows: Sequence[Row]
    total: int | None
    counts: Mapping[Any, int]
    next: str = ""

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The place of a row in a sorted list.

    ``value`` is the sort key before the id; None in a list by id. A list computes its values for ``time``, in
    s since 1970 UTC; all its pages use the same.
    """

    id: int
    value: float | str | None = None
    time: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """The order of a list: by ``key``, if there is one, then by ``id``. ``key`` is never null."""

    name: str
    id: ColumnElement[int]
    key: ColumnElement[Any] | None = None
    is_key_descending: bool = True
    is_id_descending: bool = True
    is_text: bool = False

    def columns(self) -> list[ColumnElement[Any]]:
        """Return the columns for a query's ORDER BY."""
        keys = [] if self.key is None else [self.key.desc() if self.is_key_descending else self.key]
        return [*keys, self.id.desc() if self.is_id_descending else self.id]

    def values(self) -> list[ColumnElement[Any]]:
        """Return the column that a query needs for cursors of its rows."""
        return [] if self.key is None else [self.key.label("sort_value")]

    def after(self, position: Position | None) -> list[ColumnElement[bool]]:
        """Return the condition for rows after a position; none without one."""
        if position is None:
            return []
        later = self.id < position.id if self.is_id_descending else self.id > position.id
        if self.key is None:
            return [later]
        value = bindparam(None, position.value, String() if self.is_text else Double())
        strictly = self.key < value if self.is_key_descending else self.key > value
        # The first condition bounds the range of an index, which the second alone does not.
        within = self.key <= value if self.is_key_descending else self.key >= value
        return [and_(within, or_(strictly, later))]

    def position(self, cursor: str) -> Position | None:
        """Return the position of a cursor; none for an empty one. Raises ``BadCursor``."""
        if not cursor:
            return None
        if self.key is None:
            return Position(id=numbered(cursor))
        try:
            name, id_, value, time = json.loads(base64.b64decode(cursor, b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise BadCursor(cursor) from None
        is_value = _is_text(value) if self.is_text else _is_number(value)
        if name != self.name or not (_is_id(id_) and is_value and _is_number(time)):
            raise BadCursor(cursor)
        return Position(id=id_, value=value, time=time)

    def cursor(self, row: Any, time: float = 0) -> str:
        """Return the cursor of the page after a row, which has ``id`` and the column of ``values``."""
        if self.key is None:
            return str(row.id)
        document = json.dumps([self.name, row.id, row.sort_value, time], separators=(",", ":"))
        return base64.urlsafe_b64encode(document.encode()).decode()

    def read(
        self, connection: Connection, query: Select[Any], limit: int, time: float = 0
    ) -> tuple[Sequence[Any], str]:
        """Return at most ``limit`` rows of a query in this order, and the cursor after them."""
        rows = connection.execute(query.order_by(*self.columns()).limit(limit + 1)).all()
        return cut(rows, limit, lambda row: self.cursor(row, time))


def numbered(cursor: str, largest: int = LARGEST_ID) -> int:
    """Return the cursor of a list by number as a number. Raises ``BadCursor``."""
    if re.fullmatch("[0-9]{1,19}", cursor) and int(cursor) <= largest:
        return int(cursor)
    raise BadCursor(cursor)


def total_of(counts: Mapping[Any, int], state: object | None) -> int:
    """Return the number of rows in a state; of all rows if it is None."""
    return sum(counts.values()) if state is None else counts.get(state, 0)


def cut(rows: Sequence[Row], limit: int, name: Callable[[Row], object]) -> tuple[Sequence[Row], str]:
    """Return at most ``limit`` rows, and the name of the last one if more follow (else empty).

    The caller reads ``limit`` + 1 rows.
    """
    return (rows[:limit], str(name(rows[limit - 1]))) if len(rows) > limit else (rows, "")


def named_page(
    rows: Iterable[Row],
    name: Callable[[Row], str],
    after: str,
    limit: int,
    state: Callable[[Row], str] | None = None,
) -> ListPage[Row]:
    """Return ``limit`` rows after a name, sorted by name, as a page."""
    ordered = sorted(rows, key=name)
    counts = Counter(map(state, ordered)) if state else {}
    page, following = cut([row for row in ordered if name(row) > after], limit, name)
    return ListPage(page, len(ordered), counts, following)


def text_cursor(*texts: str) -> str:
    """Return the cursor of a list that is sorted by several columns of text."""
    return base64.urlsafe_b64encode(json.dumps(texts, separators=(",", ":")).encode()).decode()


def texts_of(cursor: str, number: int) -> list[str]:
    """Return the texts of ``text_cursor``, so many. Raises ``BadCursor``."""
    try:
        texts = json.loads(base64.b64decode(cursor, b"-_", validate=True))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise BadCursor(cursor) from None
    if not isinstance(texts, list) or len(texts) != number or not all(map(_is_text, texts)):
        raise BadCursor(cursor)
    return texts


def by_time(time: float, name: str, *, newest_first: bool = False) -> str:
    """Return a row's name for ``named_page`` that sorts rows by time, then by name."""
    return f"{_LATEST - time if newest_first else time:019.6f} {name}"


_LATEST = 1e12


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_ID


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < 2.0**63  # type: ignore[arg-type]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 1000 and "\x00" not in value and is_text(value)
