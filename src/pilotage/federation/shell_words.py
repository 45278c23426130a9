"""Words of a command that a shell runs as code in some job, whatever values its parameters have."""

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import product

from pilotage.model.records.work import TaskSpec
from pilotage.model.values.placeholders import OWN, filled, names, parts
from pilotage.model.values.shell_texts import shell_texts

MOST_TRIED = 50_000_000
"""Most bytes of words that are tried for shells, in all rows."""

_WORD = 50
"""Bytes that take as long as one more word."""


class TooManyWordsError(Exception):
    """So many words may be shells, in so many rows, that a check of all takes too long."""


def code_words(spec: TaskSpec, values: Mapping[str, Set[str]], shells: frozenset[str]) -> set[int]:
    """Return the words that one of these shells runs as code, in any row.

    ``values`` are all values of each parameter. Only words that may be a shell or its option get values.
    Raises :class:`TooManyWordsError`.
    """
    found = shell_texts(spec.command, shells)
    kept, filled_in = _Ends(values, shells).reach(spec.command)
    used = list(dict.fromkeys(name for at in filled_in for name in names(spec.command[at], strict=True)))
    swept = [name for name in used if name in values]
    if not filled_in:
        return found
    each = sum(_WORD + len(spec.command[at]) for at in kept)
    each += sum(max(map(len, values[name]), default=0) for name in swept) * len(filled_in)
    words = [spec.command[at] for at in kept]
    for number, row in enumerate(_rows(spec, swept)):
        if number * each > MOST_TRIED:
            raise TooManyWordsError
        own = {**dict.fromkeys(OWN, "1"), **dict(zip(swept, row, strict=True))}
        tried = [
            filled(word, own, strict=True) if at in filled_in else word
            for at, word in zip(kept, words, strict=True)
        ]
        found |= {kept[at] for at in shell_texts(tried, shells)}
    return found


def _rows(spec: TaskSpec, swept: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Return the values of some parameters in all rows, each combination once."""
    if isinstance(spec.parameters, Mapping):
        return product(*(dict.fromkeys(spec.parameters[name]) for name in swept))
    return {tuple(row[name] for name in swept) for row in spec.parameters}


class _Ends:
    """Which words may end in the name of a shell, or begin as an option, by the values of parameters."""

    def __init__(self, values: Mapping[str, Set[str]], shells: frozenset[str]) -> None:
        self._shells = shells
        cuts = [
            (shell[begin:end], end == len(shell))
            for shell in shells
            for begin in range(len(shell) + 1)
            for end in range(begin, len(shell) + 1)
        ]
        within = frozenset({"", *(text for text, _ in cuts)})
        self._ends = frozenset({"", *(text for text, is_end in cuts if is_end)})
        self._pieces = {
            name: frozenset(piece for piece in map(_base, texts) if piece.removeprefix("/") in within)
            for name, texts in values.items()
        }
        self._options = {
            name for name, texts in values.items() if any(text[:1] in ("", "-", "+") for text in texts)
        }
        self._known: dict[tuple[str, str, frozenset[str]], frozenset[str]] = {}

    def reach(self, command: Sequence[str]) -> tuple[list[int], set[int]]:
        """Return words that may be shells, with the words behind them, and those that depend on values."""
        kept, filled_in = [], set()
        follows = behind_option = False
        for at, word in enumerate(command):
            shell, option = self._may_be_shell(word), follows and self._may_be_option(word)
            if shell or follows:
                kept.append(at)
            if (shell or option) and names(word, strict=True):
                filled_in.add(at)
            # An option may take the next word, so that the shell's code comes after that.
            follows = shell or option or (follows and behind_option)
            behind_option = option
        return kept, filled_in

    def _may_be_shell(self, word: str) -> bool:
        """Read a word from its end: keep what the name of a shell may end in."""
        ends = frozenset({""})
        for kind, text in reversed([*parts(word, strict=True)]):
            step = (kind, text, ends)
            if step not in self._known:
                self._known[step] = self._before(kind, text, ends)
            ends = self._known[step]
            if not ends or any(end[:1] == "/" for end in ends):
                return bool(ends)
        return not ends.isdisjoint(self._shells)

    def _before(self, kind: str, text: str, ends: frozenset[str]) -> frozenset[str]:
        pieces = self._pieces.get(text, frozenset()) if kind == "name" else {_base(text)}
        found = (piece + end for piece in pieces for end in ends)
        return frozenset(
            end for end in found if (end[1:] in self._shells if end[:1] == "/" else end in self._ends)
        )

    def _may_be_option(self, word: str) -> bool:
        kind, text = next(parts(word, strict=True), ("text", ""))
        return text in self._options if kind == "name" else text[:1] in ("-", "+")


def _base(text: str) -> str:
    """Return a text from its last slash on."""
    return f"/{text.rpartition('/')[2]}" if "/" in text else text
