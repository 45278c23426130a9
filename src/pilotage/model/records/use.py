"""What attempts used, and why some of it is lost."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from pilotage.model.records.failure_kinds import FAILURE_RULES, FailureKind

UseBy = Literal["day", "person", "vo", "group", "site", "queue", "task", "share", "cause"]
"""A dimension of use."""

DIMENSIONS: Sequence[UseBy] = get_args(UseBy)

STORAGE: FailureKind = "storage"
OUTPUT: FailureKind = "output"
CANCELLED = "cancelled"
OTHER_LOSS = "other"
"""Causes of losses besides the kinds of failures."""

LOSSES: Mapping[str, str] = {
    **{kind: rules.words for kind, rules in FAILURE_RULES.items()},
    CANCELLED: "a person, or its task's end, stopped it",
    OTHER_LOSS: "it ended without a report that says why",
}
"""What happened to a lost attempt, by its cause."""

CULPRITS: Mapping[str, str] = {str(kind): rules.culprit for kind, rules in FAILURE_RULES.items()}
"""Whose fault a lost attempt is, by its cause; of the others it is unknown."""
