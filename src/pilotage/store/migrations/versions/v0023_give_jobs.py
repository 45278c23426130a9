"""PostgreSQL gives a pilot its jobs by a function: to set up one statement took longer than to run it."""

from alembic import op

revision = "0023"
down_revision = "0022"

GIVE_JOBS = """
CREATE FUNCTION give_jobs(
  asked_pilot bigint, asked_queue text, asked_requirements text[], asked_priorities integer[],
  asked_jobs integer[], known_activation bigint, known_version integer, known_used boolean,
  told_containment text, told_node text, at_time double precision, entry text,
  OUT alive boolean, OUT good boolean, OUT id bigint, OUT task bigint, OUT kind varchar, OUT share varchar,
  OUT priority integer, OUT requirements varchar, OUT state varchar, OUT attempt integer,
  OUT since double precision, OUT created double precision, OUT queue varchar, OUT pilot bigint,
  OUT input_count integer, OUT events integer, OUT wake_at double precision, OUT error varchar
) RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
DECLARE
  wanted_jobs bigint := (SELECT coalesce(sum(jobs), 0) FROM unnest(asked_jobs) AS jobs);
  given_jobs bigint := 0;
BEGIN
  -- This also locks the pilot, so that nobody ends it meanwhile.
  UPDATE pilots SET heartbeat = at_time, matched = matched + wanted_jobs,
    containment = told_containment, node = told_node
  WHERE pilots.id = asked_pilot AND coalesce(pilots.state, '') = 'running'
    AND (matched > 0) = known_used;
  alive := FOUND;
  good := alive
    AND known_activation = coalesce((SELECT number FROM activations WHERE activations.queue = asked_queue), 0)
    AND known_version = coalesce((SELECT max(version) FROM federations), 0);
  IF good AND wanted_jobs > 0 THEN
    RETURN QUERY
      WITH heads AS MATERIALIZED (
        SELECT job.id, wanted.place
        FROM unnest(asked_requirements, asked_priorities, asked_jobs)
          WITH ORDINALITY AS wanted (requirements, priority, jobs, place),
        LATERAL (
          SELECT jobs.id FROM jobs
          WHERE jobs.queue = asked_queue AND jobs.requirements = wanted.requirements
            AND jobs.priority = wanted.priority AND jobs.state = 'activated'
          ORDER BY jobs.id LIMIT wanted.jobs FOR UPDATE SKIP LOCKED
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
      )
      SELECT true, true, sent.id, task, kind, share, priority, requirements, sent.state, attempt, since,
        created, queue, pilot, input_count, events, wake_at, error
      FROM sent ORDER BY place, sent.id;
    GET DIAGNOSTICS given_jobs = ROW_COUNT;
  END IF;
  IF alive AND given_jobs < wanted_jobs THEN
    UPDATE pilots SET matched = matched - wanted_jobs + given_jobs WHERE pilots.id = asked_pilot;
  END IF;
  IF given_jobs = 0 THEN
    alive := alive OR EXISTS (SELECT FROM pilots WHERE pilots.id = asked_pilot AND pilots.state = 'running');
    RETURN NEXT;
  END IF;
END $$"""


def upgrade() -> None:
    """Make the function, on PostgreSQL."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(GIVE_JOBS)
