"""Jobs that pilots have: a condition on them, and their attempts, found by pilot on either database."""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType, TypeEngine

from pilotage.model.records.states import AT_A_PILOT
from pilotage.store.database.columns import is_state
from pilotage.store.database.sets import Values
from pilotage.store.tables.jobs import jobs

_held = jobs.alias("held")

_COMPARED = " OR ".join(f"state = '{state}'" for state in AT_A_PILOT)
_LISTED = ", ".join(f"'{state}'" for state in AT_A_PILOT)

# A cross join keeps the written order: the wanted rows lie together, pilot by pilot.
ATTEMPTS: Mapping[str, str] = {
    "sqlite": f"""
SELECT jobs.pilot, jobs.id, jobs.attempt FROM json_each({{pilots}}) CROSS JOIN jobs
ON jobs.pilot = json_each.value AND ({_COMPARED})""",
    "postgresql": f"""
SELECT pilot, id, attempt FROM jobs WHERE pilot = ANY (CAST({{pilots}} AS BIGINT[])) AND state IN ({_LISTED})
ORDER BY pilot""",
}
"""Statements for the attempts of pilots, pilot by pilot, from the index alone."""

_WORD = "CASE attempt WHEN 1 THEN {id} ELSE {id} || '.' || attempt END"
_WORDS: Mapping[str, str] = {
    "sqlite": f"""
SELECT value, (
  SELECT group_concat({_WORD.format(id="id")}) FROM jobs WHERE pilot = json_each.value AND ({_COMPARED})
) FROM json_each(:pilots)""",
    "postgresql": f"""
SELECT pilot, string_agg({_WORD.format(id="id::text")}, ',' ORDER BY id) FROM jobs
WHERE pilot = ANY (CAST(:pilots AS BIGINT[])) AND state IN ({_LISTED}) GROUP BY pilot""",
}
"""The same with one text per pilot, in the form of ``words``: converting all rows takes longest."""

# SQLite would look up each row of these states. The index of pilots' jobs takes a tenth of the time.
HOLDERS: Mapping[str, str] = {
    "sqlite": f"SELECT DISTINCT pilot FROM jobs INDEXED BY jobs_at_pilots WHERE {_COMPARED}",
    "postgresql": f"SELECT DISTINCT pilot FROM jobs WHERE state IN ({_LISTED})",
}
"""Statements for the pilots that have jobs."""

_PILOT, _ATTEMPT = itemgetter(0), itemgetter(1, 2)


@cache
def held_attempts(dialect: str) -> TextClause:
    """Return the query for these attempts, with the parameter ``pilots``."""
    return text(ATTEMPTS[dialect].format(pilots=":pilots")).bindparams(bindparam("pilots", type_=Values()))


@cache
def held_words(dialect: str) -> TextClause:
    """Return the query for a text of each pilot's attempts, with the parameter ``pilots``."""
    return text(_WORDS[dialect]).bindparams(bindparam("pilots", type_=Values()))


def words(attempts: Iterable[tuple[int, int]]) -> str:
    """Return the text of some attempts. Equal texts mean equal attempts."""
    return ",".join([str(job) if number == 1 else f"{job}.{number}" for job, number in sorted(attempts)])


def by_pilot(rows: Iterable[Any]) -> dict[int, set[tuple[int, int]]]:
    """Return the attempts (job, attempt) of each pilot that has any, from rows of ``ATTEMPTS``."""
    return {pilot: set(map(_ATTEMPT, own)) for pilot, own in groupby(rows, _PILOT)}


class held_by(FunctionElement[Any]):  # noqa: N801 -- reads as a function in a query
    """``held_by("pilots")``: the job is at one of the pilots bound to the parameter ``pilots``."""

    name = "held_by"
    type: TypeEngine[Any] = NullType()
    inherit_cache = True

    def __init__(self, parameter: str) -> None:
        super().__init__(bindparam(parameter, type_=Values()))


@compiles(held_by, "sqlite")
def _sqlite(element: held_by, compiler: SQLCompiler, **options: Any) -> str:
    # SQLite assumes that any list is longer than the number of states, and would walk through all jobs at
    # pilots. A cross join keeps the written order.
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
