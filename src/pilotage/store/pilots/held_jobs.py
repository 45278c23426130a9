"""Jobs that pilots have: a condition on them, and their attempts, found by pilot on either database."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam

from pilotage.model.records.states import AT_A_PILOT
from pilotage.store.database.dialects import POSTGRESQL, SQLITE, Dialect, Statement, Worded
from pilotage.store.database.rows import Values

_COMPARED, _LISTED = (
    dialect.any_of("state", *(f"'{state}'" for state in AT_A_PILOT)) for dialect in (SQLITE, POSTGRESQL)
)

# A cross join keeps the written order: the wanted rows are adjacent, pilot by pilot.
ATTEMPTS_HERE = f"""
SELECT jobs.pilot, jobs.id, jobs.attempt FROM json_each({{pilots}}) CROSS JOIN jobs
ON jobs.pilot = json_each.value AND {_COMPARED}"""
"""SQLite's statement for the attempts of pilots, pilot by pilot, from the index alone."""

ATTEMPTS = Statement(
    lambda dialect: dialect.choose(
        ATTEMPTS_HERE.format(pilots=":pilots"),
        f"""
SELECT pilot, id, attempt FROM jobs WHERE pilot = ANY (CAST(:pilots AS BIGINT[])) AND {_LISTED}
ORDER BY pilot""",
    ),
    pilots=Values(),
)
"""The same for both databases."""

_WORD = "CASE attempt WHEN 1 THEN {id} ELSE {id} || '.' || attempt END"
WORDS = Statement(
    lambda dialect: dialect.choose(
        f"""
SELECT value, (
  SELECT group_concat({_WORD.format(id="id")}) FROM jobs WHERE pilot = json_each.value AND {_COMPARED}
) FROM json_each(:pilots)""",
        f"""
SELECT pilot, string_agg({_WORD.format(id="id::text")}, ',' ORDER BY id) FROM jobs
WHERE pilot = ANY (CAST(:pilots AS BIGINT[])) AND {_LISTED} GROUP BY pilot""",
    ),
    pilots=Values(),
)
"""The same with one text per pilot, in the form of ``words``: converting all rows takes longest."""

_PILOT, _ATTEMPT = itemgetter(0), itemgetter(1, 2)


def words(attempts: Iterable[tuple[int, int]]) -> str:
    """Return the text of some attempts. Equal texts mean equal attempts."""
    return ",".join([str(job) if number == 1 else f"{job}.{number}" for job, number in sorted(attempts)])


def by_pilot(rows: Iterable[Any]) -> dict[int, set[tuple[int, int]]]:
    """Return the attempts (job, attempt) of each pilot that has any, from rows of ``ATTEMPTS``."""
    return {pilot: set(map(_ATTEMPT, group)) for pilot, group in groupby(rows, _PILOT)}


class has_jobs(Worded):  # noqa: N801 -- reads as a function in a query
    """``has_jobs(pilots.c.id)``: the pilot with this number has jobs."""

    def words(self, dialect: Dialect, *parts: str) -> str:
        # SQLite would look up each row of these states. The index of pilots' jobs takes a tenth of the time.
        jobs_ = dialect.choose("jobs INDEXED BY jobs_at_pilots", "jobs")
        condition = dialect.choose(_COMPARED, _LISTED)
        return f"{parts[0]} IN (SELECT DISTINCT pilot FROM {jobs_} WHERE {condition})"


class held_by(Worded):  # noqa: N801 -- reads as a function in a query
    """``held_by("pilots")``: the job is at one of the pilots bound to the parameter ``pilots``."""

    def __init__(self, parameter: str) -> None:
        super().__init__(bindparam(parameter, type_=Values()))

    def words(self, dialect: Dialect, *parts: str) -> str:
        # SQLite assumes that any list is longer than the number of states, and would walk through all jobs at
        # pilots. A cross join keeps the written order.
        return dialect.choose(
            f"jobs.id IN (SELECT held.id FROM json_each({parts[0]}) CROSS JOIN jobs AS held"
            f" ON held.pilot = json_each.value AND {_COMPARED.replace('state', 'held.state')})",
            f"jobs.pilot = ANY ({parts[0]}::BIGINT[]) AND jobs.{_LISTED}",
        )
