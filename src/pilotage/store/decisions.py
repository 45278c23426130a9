"""Stored choices: table, how they are written, and what people see of them."""

import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Boolean, Column, Double, Index, LargeBinary, String, Table

from pilotage.model.decision import Choice, DatedChoice, Decision
from pilotage.model.documents import from_json, to_json

from .columns import Id, id_column, metadata, partial, text_column

decisions = Table(
    "decisions",
    metadata,
    id_column(),
    Column("task", Id, nullable=False),
    Column("step", String, nullable=False),
    Column("time", Double, nullable=False),
    text_column("actor"),
    Column("moved", Boolean, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("decisions_by_task", "task", "id"),
)

_d = decisions.c

Index("decisions_unmoved", _d.task, **partial(_d.moved.is_(False)))


def documents(decision: Decision) -> list[dict[str, Any]]:
    """The rows of a decision's choices but for what the commit adds; made before its transaction begins."""
    return [
        {
            "task": choice.task,
            "step": decision.step,
            "time": decision.time,
            "document": zlib.compress(to_json(choice)),
        }
        for choice in decision.choices
    ]


def dated(row: Sequence[Any]) -> DatedChoice:
    """The choice of a row of time and document."""
    time, document = row
    choice = from_json(Choice, zlib.decompress(document))
    return DatedChoice(time=time, **{part.name: getattr(choice, part.name) for part in fields(choice)})
