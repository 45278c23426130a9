"""Jobs may be taken by pilots of other queues: candidates by choice, what was borrowed, mean runs.

PostgreSQL's function gives a job with its choice, too: its pilot may have to read inputs from afar.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

GIVE_JOBS = """
CREATE FUNCTION give_jobs(
  asked_pilot bigint, asked_queue text, asked_requirements text[], asked_priorities integer[],
  asked_jobs integer[], known_activation bigint, known_version integer, known_used boolean,
  told_containment text, told_node text, at_time double precision, entry text,
  OUT alive boolean, OUT good boolean, OUT id bigint, OUT task bigint, OUT kind varchar, OUT share varchar,
  OUT priority integer, OUT requirements varchar, OUT state varchar, OUT attempt integer,
  OUT since double precision, OUT created double precision, OUT queue varchar, OUT pilot bigint,
  OUT input_count integer, OUT events integer, OUT wake_at double precision, OUT error varchar,
  OUT choice bigint
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
        created, queue, pilot, input_count, events, wake_at, error, choice
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

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the columns, tables and indexes."""
    op.add_column("jobs", sa.Column("choice", ID))
    op.add_column("queue_reports", sa.Column("mean_run", sa.Double))
    op.create_table(
        "candidates",
        sa.Column("choice", ID, primary_key=True, autoincrement=False),
        sa.Column("queue", sa.String, primary_key=True),
        sa.Column("binding", sa.String, nullable=False),
        sa.Column("placed", sa.Boolean, nullable=False),
    )
    op.create_table(
        "borrowings",
        sa.Column("job", ID, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("site", sa.String, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("reads", sa.Boolean, nullable=False),
        sa.Column("document", sa.String, nullable=False),
    )
    op.create_index("candidates_by_queue", "candidates", ["queue", "choice"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    placed = sa.text("placed IS 1" if is_sqlite else "placed IS true")
    waits = (
        "(state = 'assigned' OR state = 'activated')" if is_sqlite else "state IN ('assigned', 'activated')"
    )
    reading = sa.text("reads IS 1" if is_sqlite else "reads IS true")
    op.create_index(
        "borrowings_by_site",
        "borrowings",
        ["site", "time"],
        sqlite_where=reading,
        postgresql_where=reading,
    )
    waiting = sa.text(f"choice IS NOT NULL AND {waits}")
    line: list[str | sa.TextClause] = ["choice", "queue", "priority", sa.text("id DESC")]
    op.create_index("jobs_to_borrow", "jobs", line, sqlite_where=waiting, postgresql_where=waiting)
    places = ["choice", "queue"]
    op.create_index("candidates_placed", "candidates", places, sqlite_where=placed, postgresql_where=placed)
    if not is_sqlite:
        op.execute("DROP FUNCTION give_jobs")
        op.execute(GIVE_JOBS)
