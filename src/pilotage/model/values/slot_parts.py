"""Parts of slots: a slot of a queue holds one transfer, or as many small files as a bundle has (D8)."""

from typing import Literal

SizeClass = Literal["", "small"]
"""Small is a file that takes one part of a slot only; any other takes a whole slot."""

SMALL: SizeClass = "small"

BUNDLE = 16
"""Small files that one slot holds unless ``files_per_slot`` says otherwise: they are delivered one after
another, and so are one stream of bytes."""

SMALL_FILE = 1_000_000
"""Bytes of a file up to which it is small: more of its time goes into asking for it than into its bytes."""


def parts_of(size_class: str, bundle: int = BUNDLE) -> int:
    """Return the parts of a slot that a transfer takes, of which a slot has as many as a ``bundle``."""
    return 1 if size_class == SMALL else bundle


def whole(parts: int, bundle: int = BUNDLE) -> int:
    """Return the slots that so many parts take, the last of them perhaps in part."""
    return -(-parts // bundle)
