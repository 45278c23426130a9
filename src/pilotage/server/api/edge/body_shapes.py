"""Bounds on the shape of a large JSON body, counted before it is parsed.

A parser holds the interpreter, and so everybody's event loop, until it has read an object to its end: one of
900,000 keys took a second. The count gives way to other threads after each bracket and comma.
"""

import re

MOST_KEYS = 10_000
"""Most keys of one object."""

MOST_ITEMS = 200_000
"""Most items of one list."""

MOST_LISTS = 200_000
"""Most lists in all. Python searches them for garbage again and again while they are made."""

MOST_NESTED = 100
"""Most objects and lists within each other."""

STRETCH = 64 * 1024
"""Most bytes that are looked at without a turn for other threads, and most blanks and digits in a row."""

_QUOTE = ord('"')
_PLAIN = re.compile(rb'[^"{}\[\],]*+')
_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
# Possessive, and matched from where the last match ended: no text is looked at twice.
_TO_STRUCTURE = re.compile(rb'(?:[^"{}\[\],]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+[{}\[\],]', re.DOTALL)


def shape_fault(body: bytes) -> str:
    """Return why a JSON text is not parsed; empty if it may be. The parser refuses a text that is no JSON."""
    budgets: list[int] = []
    at = lists = 0
    while at < len(body):
        match = _TO_STRUCTURE.match(body, at, at + STRETCH)
        if match is None:
            if _PLAIN.match(body, at, at + STRETCH).end() - at == STRETCH:  # type: ignore[union-attr]
                return f"has {STRETCH} blanks or digits in a row; leave them out"
            at = _behind_texts(body, at)
            continue
        at = match.end()
        sign = body[at - 1 : at]
        if sign in b"{[":
            lists += sign == b"["
            if lists > MOST_LISTS:
                return f"has more than {MOST_LISTS} lists; send it in parts"
            budgets.append(MOST_KEYS if sign == b"{" else MOST_ITEMS)
            if len(budgets) > MOST_NESTED:
                return f"nests deeper than {MOST_NESTED} levels; write it flatter"
        elif not budgets:
            return ""
        elif sign == b",":
            budgets[-1] -= 1
            if budgets[-1] == 0:
                limits = f"{MOST_KEYS} keys in one object, or {MOST_ITEMS} items in one list"
                return f"has more than {limits}; send it in parts"
        else:
            budgets.pop()
    return ""


def _behind_texts(body: bytes, at: int) -> int:
    """Return the place of the next bracket or comma, or one outside of texts after ``STRETCH`` bytes."""
    end = at + STRETCH
    while at < end:
        at = _PLAIN.match(body, at, end).end()  # type: ignore[union-attr]
        if at >= len(body) or body[at] != _QUOTE:
            break
        at = _behind_text(body, at + 1)
    return at


def _behind_text(body: bytes, at: int) -> int:
    """Return the place behind the text that begins ``at``."""
    while at + 1 < len(body):
        at = _TEXT.match(body, at, at + STRETCH).end()  # type: ignore[union-attr]
        if body[at : at + 1] == b'"':
            return at + 1
    return len(body)
