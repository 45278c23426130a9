"""The functions of PostgreSQL, made after the last migration: a migration never makes one.

The name of a function ends with a digest of its text, so servers of two versions call two functions. If a
function is dropped while a server plans a call, the call fails: ``cache lookup failed``. So an upgrade drops
none, and ``drop_former`` drops them when their servers have ended.
"""

from hashlib import sha256

from sqlalchemy import Connection, text

from pilotage.store.database.dialects import POSTGRESQL, dialect_of
from pilotage.store.database.record_columns import listed
from pilotage.store.history.settled_numbers import LOCK
from pilotage.store.jobs.table import JOB_COLUMNS

_SPELT = {"DOUBLE": "double precision"}
_OUT = "".join(f', OUT "{column.name}" {_SPELT.get(str(column.type), column.type)}' for column in JOB_COLUMNS)
_JOB = listed(JOB_COLUMNS, of="sent.")
_ROWS = f"""\
  OUT alive boolean, OUT good boolean{_OUT}
) RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
"""
"""The rows that both return: a job, whether the pilot is alive, and whether the basis holds."""

_STANDING = """\
  alive := FOUND;
  good := alive
    AND known_activation = coalesce((SELECT number FROM activations WHERE activations.queue = asked_queue), 0)
    AND known_version = coalesce((SELECT max(version) FROM federations), 0);
"""

_DURABLE = """\
  IF given_jobs > 0 THEN
    -- A job whose match is lost goes out again while its pilot runs it: wait for the disk.
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
"""

_NOTHING = """\
  IF given_jobs = 0 THEN
    alive := alive OR EXISTS (SELECT FROM pilots WHERE pilots.id = asked_pilot AND pilots.state = 'running');
    RETURN NEXT;
  END IF;
END $$"""

_GIVE_JOBS = f"""(
  asked_pilot bigint, asked_queue text, asked_requirements text[], asked_priorities integer[],
  asked_jobs integer[], known_activation bigint, known_version integer, known_used boolean,
  told_containment text, told_node text, at_time double precision, entry text, closed_tasks bigint[],
{_ROWS}DECLARE
  wanted_jobs bigint := (SELECT coalesce(sum(jobs), 0) FROM unnest(asked_jobs) AS jobs);
  given_jobs bigint := 0;
BEGIN
  -- This also locks the pilot, so that nobody ends it meanwhile.
  UPDATE pilots SET heartbeat = at_time, matched = matched + wanted_jobs,
    containment = told_containment, node = told_node
  WHERE pilots.id = asked_pilot AND coalesce(pilots.state, '') = 'running'
    AND (matched > 0) = known_used;
{_STANDING}  IF good AND wanted_jobs > 0 THEN
    PERFORM pg_advisory_xact_lock_shared({LOCK});
    RETURN QUERY
      WITH heads AS MATERIALIZED (
        SELECT job.id, wanted.place
        FROM unnest(asked_requirements, asked_priorities, asked_jobs)
          WITH ORDINALITY AS wanted (requirements, priority, jobs, place),
        LATERAL (
          SELECT jobs.id FROM jobs
          WHERE jobs.queue = asked_queue AND jobs.requirements = wanted.requirements
            AND jobs.priority = wanted.priority AND jobs.state = 'activated'
            AND jobs.task <> ALL (closed_tasks)
          ORDER BY jobs.created, jobs.id LIMIT wanted.jobs FOR UPDATE SKIP LOCKED
        ) AS job
      ), sent AS (
        UPDATE jobs SET state = 'sent', since = at_time, pilot = asked_pilot,
          history = history || entry || CASE WHEN attempt > 1 THEN ' a' || attempt ELSE '' END || chr(10)
        FROM heads WHERE jobs.id = heads.id
        RETURNING heads.place, jobs.*
      ), counted AS (
        INSERT INTO job_deltas (queue, share, task, requirements, priority, source, target, count)
        SELECT queue, share, task, requirements, priority, 'activated', 'sent', count(*) FROM sent
        GROUP BY queue, share, task, requirements, priority
      ), logged AS (
        INSERT INTO events (time, meaning, task, records)
        SELECT at_time, split_part(entry, ' ', 1)::bigint, task,
          string_agg(sent.id::text, ' ' ORDER BY sent.id)
        FROM sent GROUP BY task
      )
      SELECT true, true, {_JOB} FROM sent ORDER BY place, sent.created, sent.id;
    GET DIAGNOSTICS given_jobs = ROW_COUNT;
  END IF;
{_DURABLE}  IF alive AND given_jobs < wanted_jobs THEN
    UPDATE pilots SET matched = matched - wanted_jobs + given_jobs WHERE pilots.id = asked_pilot;
  END IF;
{_NOTHING}"""

_BORROW_JOBS = f"""(
  asked_pilot bigint, asked_queue text, known_activation bigint, known_version integer, known_used boolean,
  asked_ids bigint[], asked_attempts integer[], asked_queues text[], asked_states text[],
  asked_changes text[], asked_entries text[], asked_reads boolean[], asked_documents text[],
  most integer, at_site text, told_containment text, told_node text, at_time double precision,
{_ROWS}DECLARE
  given_jobs bigint := 0;
BEGIN
  -- This also locks the pilot, so that nobody ends it meanwhile.
  UPDATE pilots SET heartbeat = at_time, matched = matched + most,
    containment = told_containment, node = told_node
  WHERE pilots.id = asked_pilot AND coalesce(pilots.state, '') = 'running'
    AND (matched > 0) = known_used;
{_STANDING}  IF good THEN
    PERFORM pg_advisory_xact_lock_shared({LOCK});
    RETURN QUERY
      WITH held AS MATERIALIZED (
        SELECT jobs.id, wanted.* FROM unnest(
          asked_ids, asked_attempts, asked_queues, asked_states, asked_changes, asked_entries, asked_reads,
          asked_documents
        ) WITH ORDINALITY
          AS wanted (asked, at_attempt, preferred, was, known_changes, entry, reads, document, place)
        JOIN jobs ON jobs.id = wanted.asked
        WHERE jobs.attempt = wanted.at_attempt AND jobs.queue = wanted.preferred
          AND jobs.state = wanted.was AND jobs.changes = wanted.known_changes
        ORDER BY wanted.place LIMIT most FOR UPDATE OF jobs SKIP LOCKED
      ), sent AS (
        UPDATE jobs SET state = 'sent', since = at_time, pilot = asked_pilot, queue = asked_queue,
          history = history || held.entry || CASE WHEN attempt > 1 THEN ' a' || attempt ELSE '' END || chr(10)
        FROM held WHERE jobs.id = held.id
        RETURNING held.place, held.preferred, held.was, held.entry, held.reads, held.document, jobs.*
      ), counted AS (
        INSERT INTO job_deltas (queue, share, task, requirements, priority, source, target, count)
        SELECT preferred, share, task, requirements, priority, was, '', count(*) FROM sent
        GROUP BY preferred, share, task, requirements, priority, was
        UNION ALL SELECT queue, share, task, requirements, priority, '', 'sent', count(*) FROM sent
        GROUP BY queue, share, task, requirements, priority
      ), kept AS (
        INSERT INTO borrowings (job, attempt, site, time, reads, document)
        SELECT sent.id, attempt, at_site, at_time, sent.reads, sent.document FROM sent
      ), logged AS (
        INSERT INTO events (time, meaning, task, records)
        SELECT at_time, split_part(sent.entry, ' ', 1)::bigint, task,
          string_agg(sent.id::text, ' ' ORDER BY sent.id)
        FROM sent GROUP BY task, split_part(sent.entry, ' ', 1)
      )
      SELECT true, true, {_JOB} FROM sent ORDER BY place;
    GET DIAGNOSTICS given_jobs = ROW_COUNT;
  END IF;
{_DURABLE}  IF alive AND given_jobs < most THEN
    UPDATE pilots SET matched = matched - most + given_jobs WHERE pilots.id = asked_pilot;
  END IF;
{_NOTHING}"""


def _named(name: str, definition: str) -> str:
    return f"{name}_{sha256(definition.encode()).hexdigest()[:8]}"


GIVE_JOBS = _named("give_jobs", _GIVE_JOBS)
"""The name of the function that gives a pilot jobs of the pilot's queue."""

BORROW_JOBS = _named("borrow_jobs", _BORROW_JOBS)
"""The name of the function that gives waiting jobs of other queues to a pilot, each only from where it was
seen (E2)."""

_CURRENT = {"give": GIVE_JOBS, "borrow": BORROW_JOBS}

_OTHERS = r"""
SELECT oid::regprocedure::text FROM pg_proc
WHERE proname ~ '^(give|borrow)_jobs_[0-9a-f]{8}$' AND proname NOT IN (:give, :borrow)
  AND pronamespace = current_schema()::regnamespace"""


def make(connection: Connection) -> None:
    """Create the current functions on PostgreSQL. Keep the functions of the previous version."""
    if dialect_of(connection) is not POSTGRESQL:
        return
    for name, definition in ((GIVE_JOBS, _GIVE_JOBS), (BORROW_JOBS, _BORROW_JOBS)):
        connection.execute(text(f"CREATE OR REPLACE FUNCTION {name}{definition}"))


def are_current(connection: Connection) -> bool:
    """Return whether the functions that this program calls exist; true for SQLite, which has none."""
    if dialect_of(connection) is not POSTGRESQL:
        return True
    query = text("SELECT to_regproc(:give) IS NOT NULL AND to_regproc(:borrow) IS NOT NULL")
    return bool(connection.execute(query, _CURRENT).scalar())


def drop_former(connection: Connection) -> None:
    """Drop the functions that only servers of the previous version call."""
    if dialect_of(connection) is POSTGRESQL:
        for (function,) in connection.execute(text(_OTHERS), _CURRENT).all():
            connection.execute(text(f"DROP FUNCTION {function}"))
