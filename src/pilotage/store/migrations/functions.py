"""The current functions of PostgreSQL, made after the last migration: a migration never makes one."""

from sqlalchemy import Connection, text

from pilotage.store.tables.events import LOCK

_ROWS = """\
  OUT alive boolean, OUT good boolean, OUT id bigint, OUT task bigint, OUT kind varchar, OUT share varchar,
  OUT priority integer, OUT requirements varchar, OUT state varchar, OUT attempt integer,
  OUT since double precision, OUT created double precision, OUT queue varchar, OUT pilot bigint,
  OUT input_count integer, OUT events integer, OUT wake_at double precision, OUT error varchar,
  OUT choice bigint, OUT job_index integer, OUT changes varchar
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

_NOTHING = """\
  IF given_jobs = 0 THEN
    alive := alive OR EXISTS (SELECT FROM pilots WHERE pilots.id = asked_pilot AND pilots.state = 'running');
    RETURN NEXT;
  END IF;
END $$"""

GIVE_JOBS = f"""
CREATE FUNCTION give_jobs(
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
      SELECT true, true, sent.id, task, kind, share, priority, requirements, sent.state, attempt, since,
        created, queue, pilot, input_count, events, wake_at, error, choice, job_index, changes
      FROM sent ORDER BY place, sent.created, sent.id;
    GET DIAGNOSTICS given_jobs = ROW_COUNT;
  END IF;
  IF alive AND given_jobs < wanted_jobs THEN
    UPDATE pilots SET matched = matched - wanted_jobs + given_jobs WHERE pilots.id = asked_pilot;
  END IF;
{_NOTHING}"""

BORROW_JOBS = f"""
CREATE FUNCTION borrow_jobs(
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
      SELECT true, true, sent.id, task, kind, share, priority, requirements, sent.state, attempt, since,
        created, queue, pilot, input_count, events, wake_at, error, choice, job_index, changes
      FROM sent ORDER BY place;
    GET DIAGNOSTICS given_jobs = ROW_COUNT;
  END IF;
  IF alive AND given_jobs < most THEN
    UPDATE pilots SET matched = matched - most + given_jobs WHERE pilots.id = asked_pilot;
  END IF;
{_NOTHING}"""
"""Gives waiting jobs of other queues to a pilot, each only from where it was seen (E2)."""


FORMER_BORROW_JOBS = f"""
CREATE FUNCTION borrow_jobs(
  asked_pilot bigint, asked_queue text, known_activation bigint, known_version integer, known_used boolean,
  asked_ids bigint[], asked_attempts integer[], asked_queues text[], asked_states text[],
  asked_entries text[], asked_reads boolean[], asked_documents text[], most integer, at_site text,
  told_containment text, told_node text, at_time double precision,
{_ROWS}BEGIN
  RETURN QUERY SELECT * FROM borrow_jobs(
    asked_pilot, asked_queue, known_activation, known_version, known_used, asked_ids, asked_attempts,
    asked_queues, asked_states, array_fill(''::text, ARRAY[cardinality(asked_ids)]), asked_entries,
    asked_reads, asked_documents, most, at_site, told_containment, told_node, at_time
  );
END $$"""
"""What servers up to tables 0118 call. They know nothing of changed jobs, so they get none of these."""

_FORMER_ARGUMENTS = """
bigint, text, bigint, integer, boolean, bigint[], integer[], text[], text[], text[], boolean[], text[],
integer, text, text, text, double precision"""


def keep_former(connection: Connection) -> None:
    """Keep what servers of the former version call, until :func:`drop_former`."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(FORMER_BORROW_JOBS))


def drop_former(connection: Connection) -> None:
    """Drop what only servers of the former version call."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"DROP FUNCTION IF EXISTS borrow_jobs({_FORMER_ARGUMENTS})"))


def make(connection: Connection) -> None:
    """Recreate all of them on PostgreSQL."""
    drop_former(connection)
    if connection.dialect.name == "postgresql":
        for name, definition in (("give_jobs", GIVE_JOBS), ("borrow_jobs", BORROW_JOBS)):
            # A function with other result columns cannot replace one.
            connection.execute(text(f"DROP FUNCTION IF EXISTS {name}"))
            connection.execute(text(definition))
