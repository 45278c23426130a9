"""ClassAd expressions of users and sites: parse and limit them before anything evaluates them.

The reference library reports neither where an expression is wrong nor how long it may take. So this parser
comes first. It allows only operators, attributes, constants, lists and ``FUNCTIONS``: their cost is
proportional to their text. Nothing in them can reach files, the network, the environment, the clock or random
numbers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pilotage.model.values.types import SMALLEST

MOST_CHARACTERS = 4000
"""Longest text of an expression."""

MOST_TOKENS = 1000
"""Most names, constants, operators and brackets of an expression."""

DEEPEST = 30
"""Deepest nesting of brackets, signs and conditions."""

WORLD_TIME = "WorldTime"
"""The attribute behind ``time()``: the world's time, in s since 1970."""

WORLD_CHANCE = "WorldChance"
"""The site attribute behind ``random()``: drawn in [0, 1) with the world's seed."""

_FUNCTIONS = """
allcompare anycompare avg bool ceiling floor identicalmember ifthenelse int iserror isboolean
isinteger islist isreal isstring isundefined max member min pow quantize real round size strcat
strcmp stricmp string substr sum tolower toupper versioncmp versiongt versionge versionle versionlt
versioneq version_in_range
"""
FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Functions that are allowed besides ``time()`` and ``random()``, in lower case."""

MOST_PARTS = 200
"""Most arguments of functions that make texts, each counted once for every such function around it. Nothing
interrupts the library: with a site's longest attribute in each of them it takes some 40 ms."""

_MAKING = frozenset(["strcat", "string", "substr", "tolower", "toupper"])
_SLOW = frozenset(["regexp", "regexps", "replace", "replaceall", "stringlistregexpmember", "regexpmember"])
LARGEST = 2**53
"""The largest number in an expression. Up to it, whole and other numbers are exact."""

_ESCAPED = {"n": "\n", "t": "\t"}
_OWN, _OTHER = "my", "target"
_CONSTANTS = frozenset(["true", "false", "undefined", "error"])
_WORDS = {"is": "=?=", "isnt": "=!="}
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "=?=", "=!="),
    ("<=", ">=", "<", ">"),
    ("<<", ">>", ">>>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_COMPARING = frozenset([*_LEVELS[5], *_LEVELS[6]])
_TOKEN = re.compile(
    r"""\s+ | (?P<number>(?:\d*\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<text>"(?:[^"\\\n]|\\["\\nt])*") | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>=\?=|=!=|>>>|<<|>>|\|\||&&|==|!=|<=|>=|\?:|[-+*/%<>!~|^&?:.,()\[\]{}=;])""",
    re.VERBOSE | re.ASCII,
)


class ClassAdError(ValueError):
    """An expression that is not allowed. ``place`` is the character, from 1, if known."""

    def __init__(self, place: int, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"character {place}: {problem}")


class AttributeReference(NamedTuple):
    """An attribute that an expression reads, from its own ad or from the other's, in lower case."""

    of_target: bool
    name: str


@dataclass(frozen=True, slots=True)
class RelationalExpression:
    """The two sides of a comparison, as texts."""

    first: str
    second: str
    reads_other: bool
    """Whether the left side reads the other ad."""


@dataclass(frozen=True, slots=True)
class Subexpression:
    """A part that must be true for the whole expression to be true.

    ``text`` is the original, ``evaluated`` is the form for the library, with the world's time and random
    numbers.
    """

    text: str
    evaluated: str
    references: frozenset[AttributeReference]
    comparison: RelationalExpression | None


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression: the whole as one part, and the parts joined by ``&&``."""

    whole: Subexpression
    parts: tuple[Subexpression, ...]


class Lexeme(NamedTuple):
    """A word or sign of a text, and its position."""

    kind: str
    text: str
    start: int
    end: int


class _Span(NamedTuple):
    """A part of an expression. ``joined`` are the sides of ``&&``, ``compared`` the sides of others."""

    start: int
    end: int
    joined: tuple["_Span", ...] = ()
    compared: tuple["_Span", ...] = ()


@lru_cache(maxsize=10_000)
def read(text: str, of_site: bool = False) -> Expression:
    """Parse an expression of a site's or a job's ad. Raises ``ClassAdError``."""
    reader = _Parser(text, of_site)
    span = reader.all()
    return Expression(reader.part(span), tuple(reader.part(part) for part in _flat(span)))


def constant(text: str, at: int = 0) -> int | float | str:
    """Return the value of a number or of a quoted text that begins ``at``. Raises ``ClassAdError``."""
    if text.startswith('"'):
        return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), text[1:-1])
    value = int(text) if text.isdecimal() else float(text)
    if abs(value) > LARGEST:
        raise ClassAdError(at + 1, f"{text} is a number beyond {LARGEST}")
    if 0 < value < SMALLEST or (value == 0 and text.strip("0.").lower()[:1] not in ("", "e")):
        raise ClassAdError(at + 1, f"{text} is nearer to 0 than {SMALLEST:g}")
    return value


def _flat(span: _Span) -> Iterator[_Span]:
    if not span.joined:
        yield span
    for side in span.joined:
        yield from _flat(side)


def _tokens(text: str, longest: int, limit: int) -> list[Lexeme]:
    """Return the words and signs of a text, followed by an ``end``. Raises ``ClassAdError``."""
    if len(text) > longest:
        raise ClassAdError(longest + 1, f"is longer than {longest} characters")
    for place, sign in enumerate(text):
        if sign == "\x00" or "\ud800" <= sign <= "\udfff":
            raise ClassAdError(place + 1, f"{sign!r} is not part of an expression")
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ClassAdError(at + 1, f"{text[at : at + 20]!r} is not part of an expression")
        if match.lastgroup:
            tokens.append(Lexeme(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
        if len(tokens) > limit:
            raise ClassAdError(at, f"has more than {limit} words and signs")
    return [*tokens, Lexeme("end", "", len(text), len(text))]


class TokenReader:
    """Reads a text token by token. Each method raises ``ClassAdError`` at an unexpected token."""

    def __init__(self, text: str, longest: int = MOST_CHARACTERS, limit: int = MOST_TOKENS) -> None:
        self._text = text
        self._tokens = _tokens(text, longest, limit)
        self._at = 0

    @property
    def _now(self) -> Lexeme:
        return self._tokens[self._at]

    def _takes(self, *signs: str) -> bool:
        if self._now.kind == "sign" and self._now.text in signs:
            self._at += 1
            return True
        return False

    def _needs(self, sign: str) -> int:
        if not self._takes(sign):
            raise self._unexpected(repr(sign))
        return self._tokens[self._at - 1].end

    def _unexpected(self, expected: str) -> ClassAdError:
        actual = repr(self._now.text) if self._now.text else "the end"
        return ClassAdError(self._now.start + 1, f"{expected} was expected, found {actual}")


class _Parser(TokenReader):
    """Parses one expression from its first token to its last."""

    def __init__(self, text: str, of_site: bool) -> None:
        super().__init__(text)
        self._of_site = of_site
        self._depth = 0
        self._references: list[tuple[int, AttributeReference]] = []
        self._bound: list[tuple[int, int, str]] = []
        self._arguments = self._parts = 0

    def all(self) -> _Span:
        """Parse the whole text."""
        span = self._condition()
        if self._now.kind != "end":
            raise self._unexpected("an operator or the end")
        return span

    def part(self, span: _Span) -> Subexpression:
        """Return the part between two characters."""
        return Subexpression(
            text=self._text[span.start : span.end],
            evaluated=self._evaluated(span),
            references=frozenset(
                reference for at, reference in self._references if span.start <= at < span.end
            ),
            comparison=self._comparison(span.compared) if span.compared else None,
        )

    def _comparison(self, sides: tuple[_Span, ...]) -> RelationalExpression:
        first, second = sides
        reads = any(
            reference.of_target for at, reference in self._references if first.start <= at < first.end
        )
        return RelationalExpression(self._evaluated(first), self._evaluated(second), reads)

    def _evaluated(self, span: _Span) -> str:
        at, pieces = span.start, []
        for start, end, instead in self._bound:
            if span.start <= start < span.end:
                pieces += [self._text[at:start], instead]
                at = end
        return "".join([*pieces, self._text[at : span.end]])

    def _next(self) -> Lexeme:
        token = self._now
        self._at += 1
        return token

    def _condition(self) -> _Span:
        """Parse ``condition ? value : other``, ``value ?: other``, or neither."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise ClassAdError(self._now.start + 1, f"is nested more than {DEEPEST} deep")
        span = self._binary(0)
        if self._takes("?:"):
            span = _Span(span.start, self._condition().end)
        elif self._takes("?"):
            self._condition()
            self._needs(":")
            span = _Span(span.start, self._condition().end)
        self._depth -= 1
        return span

    def _binary(self, level: int) -> _Span:
        if level == len(_LEVELS):
            return self._unary()
        span = self._binary(level + 1)
        while (sign := _WORDS.get(self._now.text.lower(), self._now.text)) in _LEVELS[level]:
            self._next()
            operand = self._binary(level + 1)
            sides = (span, operand)
            joined, compared = sides if sign == "&&" else (), sides if sign in _COMPARING else ()
            span = _Span(span.start, operand.end, joined, compared)
        return span

    def _unary(self) -> _Span:
        start = self._now.start
        signs = 0
        while self._takes("-", "+", "!", "~"):
            signs += 1
            if signs > DEEPEST:
                raise ClassAdError(start + 1, f"has more than {DEEPEST} signs in a row")
        span = self._value()
        while self._takes("["):
            self._condition()
            span = _Span(span.start, self._needs("]"))
        return _Span(start, span.end) if signs else span

    def _value(self) -> _Span:
        token = self._next()
        if token.kind == "name":
            return self._named(token)
        if token.kind in ("number", "text"):
            constant(token.text, token.start)
            return _Span(token.start, token.end)
        if token.text == "(":
            inner = self._condition()
            # Brackets around a conjunction do not hide its parts.
            return _Span(token.start, self._needs(")"), inner.joined, inner.compared)
        if token.text == "{":
            return _Span(token.start, self._list("}"))
        self._at -= 1
        raise self._unexpected("a value")

    def _list(self, closing: str) -> int:
        if self._takes(closing):
            return self._tokens[self._at - 1].end
        self._argument()
        while self._takes(","):
            self._argument()
        return self._needs(closing)

    def _argument(self) -> None:
        self._arguments += 1
        self._condition()

    def _named(self, token: Lexeme) -> _Span:
        name = token.text.lower()
        if self._now.text == "(" and self._now.kind == "sign":
            return self._call(token)
        if name in _CONSTANTS:
            return _Span(token.start, token.end)
        of_target, end = False, token.end
        if name in (_OWN, _OTHER):
            self._needs(".")
            attribute = self._next()
            if attribute.kind != "name":
                self._at -= 1
                raise self._unexpected("the name of an attribute")
            of_target, name, end = name == _OTHER, attribute.text.lower(), attribute.end
        if name in ("requirements", "rank", "self", "parent", "toplevel", "root", "currenttime", *_WORDS):
            remedy = "call time()" if name == "currenttime" else "read single attributes"
            raise ClassAdError(token.start + 1, f"{name!r} may not be read here; {remedy}")
        # Keep its position, so that each part of the expression finds its own references.
        self._references.append((token.start, AttributeReference(of_target, name)))
        return _Span(token.start, end)

    def _call(self, token: Lexeme) -> _Span:
        name = token.text.lower()
        self._needs("(")
        if name in ("time", "random"):
            if not self._takes(")"):
                raise ClassAdError(self._now.start + 1, f"{name}() takes nothing here")
            return self._world(token, name)
        if name in _SLOW:
            raise ClassAdError(
                token.start + 1,
                f"{name}() may take for ever; compare, or call member()",
            )
        if name not in FUNCTIONS:
            names = ", ".join(sorted(FUNCTIONS | {"time", "random"}))
            raise ClassAdError(token.start + 1, f"{token.text}() may not be called; known: {names}")
        before, end = self._arguments, self._list(")")
        if name in _MAKING:
            self._parts += self._arguments - before
            if self._parts > MOST_PARTS:
                raise ClassAdError(token.start + 1, f"makes texts of more than {MOST_PARTS} parts")
        return _Span(token.start, end)

    def _world(self, token: Lexeme, name: str) -> _Span:
        """``time()`` and ``random()`` are attributes of the site's ad, in expressions of jobs too."""
        end = self._tokens[self._at - 1].end
        attribute = WORLD_TIME if name == "time" else WORLD_CHANCE
        scope = "MY" if self._of_site else "TARGET"
        self._bound.append((token.start, end, f"{scope}.{attribute}"))
        self._references.append((token.start, AttributeReference(not self._of_site, attribute.lower())))
        return _Span(token.start, end)
