"""Parts of slots: a slot of a queue holds one transfer, or a bundle of small files (D8)."""

from typing import Literal

SizeClass = Literal["", "small"]
"""A small file takes only one part of a slot. Any other takes a whole slot."""

SMALL: SizeClass = "small"

BUNDLE = 16
"""Small files per slot unless ``files_per_slot`` says otherwise. They are delivered one after another,
like one stream of bytes."""

SMALL_FILE = 1_000_000
"""Largest small file in bytes: requesting it takes longer than moving its bytes."""


def parts_of(size_class: str, bundle: int = BUNDLE) -> int:
    """Return the parts of a slot that a transfer takes. A slot has ``bundle`` parts."""
    return 1 if size_class == SMALL else bundle


def whole(parts: int, bundle: int = BUNDLE) -> int:
    """Return the slots that this many parts take. The last one may be partly used."""
    return -(-parts // bundle)
