"""PostgreSQL's array literals. The driver would be slow for each element."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def array(values: Sequence[Any]) -> str:
    """Return the literal of some values."""
    words = {value: word(value) for value in set(values)}
    return array_of(words[value] for value in values)


def word(value: Any) -> str:
    """Return a value in the form of array literals."""
    return _WORDS[type(value)](value)


def array_of(words: Iterable[str]) -> str:
    """Return the literal of values in that form."""
    return "{" + ",".join(words) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Words(dict[type, Callable[[Any], str]]):
    """Writers of values by type. A subclass of str, such as a state, is written as text."""

    def __missing__(self, type_: type) -> Callable[[Any], str]:
        return next(write for base, write in self.items() if issubclass(type_, base))


_WORDS = _Words(
    {
        str: _quoted,
        bool: lambda value: "true" if value else "false",
        int: str,
        float: repr,
        type(None): lambda _: "NULL",
    }
)
