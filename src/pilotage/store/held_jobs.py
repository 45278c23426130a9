"""The condition that pilots have a job, such that either database finds it by the pilots."""

from typing import Any

from sqlalchemy import bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeEngine

from pilotage.model.states import AT_A_PILOT

from .columns import is_state
from .jobs import jobs
from .sets import Values

_held = jobs.alias("held")


class held_by(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``held_by("pilots")``: the job is at one of the pilots bound to the parameter ``pilots``."""

    name = "held_by"
    type: TypeEngine[Any] = NullType()
    inherit_cache = True

    def __init__(self, parameter: str) -> None:
        super().__init__(bindparam(parameter, type_=Values()))


@compiles(held_by, "sqlite")
def _sqlite(element: held_by, compiler: SQLCompiler, **options: Any) -> str:
    # SQLite takes every list for longer than there are states, and would walk through all jobs at any pilot:
    # a cross join is made in the order in which it is written.
    (pilots,) = element.clauses
    return (
        f"jobs.id IN (SELECT held.id FROM json_each({compiler.process(pilots, **options)})"
        " CROSS JOIN jobs AS held ON held.pilot = json_each.value"
        f" AND {compiler.process(is_state(_held, *AT_A_PILOT).self_group(), **options)})"
    )


@compiles(held_by, "postgresql")
def _postgresql(element: held_by, compiler: SQLCompiler, **options: Any) -> str:
    (pilots,) = element.clauses
    at_a_pilot = compiler.process(is_state(jobs, *AT_A_PILOT), **options)
    return f"jobs.pilot = ANY ({compiler.process(pilots, **options)}::BIGINT[]) AND {at_a_pilot}"
