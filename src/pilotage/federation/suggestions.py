"""Suggest the known word that a user most likely meant."""

import difflib
from collections.abc import Collection

from pilotage import request_budget

LONGEST_WORD = 100
"""Characters that are compared: strangers choose the length, and to compare takes quadratic time."""

MOST_WORDS = 1000
"""Most words that one word is compared with; among more, there is no suggestion."""


def nearest(word: str, candidates: Collection[str], number: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known words that resemble a word, the nearest first.

    Return none once the request's budget of suggestions is spent.

    Raises ``ClientGone`` or ``RequestTooLong``.
    """
    if not 0 < len(candidates) <= MOST_WORDS or not request_budget.takes_suggestion():
        return []
    return difflib.get_close_matches(word[:LONGEST_WORD], list(candidates), number, cutoff)
