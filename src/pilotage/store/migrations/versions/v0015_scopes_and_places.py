"""Names of files get the scope of their owner, and replicas the path where they lie.

What several VOs named alike becomes a file of each. Where copies lie is left as it is: those that were made
until now stay under the name of their file. Inputs that no job and no unsplit task reads are forgotten, for
nobody can tell whose they were; so are transfers of theirs that are over.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_PERSON = "replace('user.' || owner || CASE vo WHEN '' THEN '' ELSE '~' || vo END, ':', '=')"
_VO = f"""
  CASE WHEN vo = '' THEN {_PERSON} WHEN vo LIKE 'user.%' THEN replace('vo~' || vo, ':', '=')
  ELSE replace(vo, ':', '=') END"""
_READ = f"""
  INSERT INTO scoped SELECT DISTINCT job_inputs.file,
    CASE WHEN job_inputs.file LIKE 'tasks/%' THEN {_PERSON} ELSE {_VO} END || ':' || job_inputs.file
  FROM job_inputs JOIN jobs ON jobs.id = job_inputs.job JOIN tasks ON tasks.id = jobs.task"""
_MADE = f"""
  INSERT INTO scoped SELECT files.name, coalesce({_PERSON}, 'nobody~') || ':' || files.name
  FROM files LEFT JOIN tasks ON tasks.id = files.task WHERE files.task IS NOT NULL"""
_UNSPLIT = f"""
  SELECT id, spec, {_PERSON} AS person, {_VO} AS vo FROM tasks
  WHERE state IN ('registered', 'scouting', 'splitting')"""
_STEPS = (
    "INSERT INTO files SELECT one.new, size, checksum, task, job"
    " FROM files JOIN names AS one ON one.old = name",
    "INSERT INTO replicas (file, storage, path)"
    " SELECT one.new, storage, '' FROM replicas JOIN names AS one ON one.old = file",
    "DELETE FROM replicas WHERE file NOT IN (SELECT new FROM names)",
    "DELETE FROM files WHERE name NOT IN (SELECT new FROM names)",
    f"""UPDATE job_inputs SET file = (
      SELECT CASE WHEN job_inputs.file LIKE 'tasks/%' THEN {_PERSON} ELSE {_VO} END || ':' || job_inputs.file
      FROM jobs JOIN tasks ON tasks.id = jobs.task WHERE jobs.id = job_inputs.job)
    WHERE job IN (SELECT jobs.id FROM jobs JOIN tasks ON tasks.id = jobs.task)""",
    "UPDATE transfers SET file = (SELECT min(new) FROM names WHERE old = file)"
    " WHERE file IN (SELECT old FROM names)",
)


def upgrade() -> None:
    """Add the columns, and name every file anew."""
    op.add_column("replicas", sa.Column("path", sa.String(), server_default="", nullable=False))
    op.add_column("replicas", sa.Column("since", sa.Double(), nullable=True))
    connection = op.get_bind()
    connection.execute(sa.text("CREATE TEMPORARY TABLE scoped (old VARCHAR, new VARCHAR)"))
    connection.execute(sa.text(_MADE))
    connection.execute(sa.text(_READ))
    for task in connection.execute(sa.text(_UNSPLIT)).all():
        _scope(connection, *task)
    connection.execute(sa.text("CREATE TEMPORARY TABLE names AS SELECT DISTINCT old, new FROM scoped"))
    for step in _STEPS:
        connection.execute(sa.text(step))
    connection.execute(sa.text("DROP TABLE names"))
    connection.execute(sa.text("DROP TABLE scoped"))


def _scope(connection: sa.Connection, task: int, text: str, person: str, vo: str) -> None:
    """Write the scopes into what a task reads of which jobs are still to be made."""
    spec = json.loads(text)
    for item in spec.get("inputs", ()):
        if "name" in item:
            item["scope"] = person if item["name"].startswith("tasks/") else vo
            new = {"old": item["name"], "new": f"{item['scope']}:{item['name']}"}
            connection.execute(sa.text("INSERT INTO scoped VALUES (:old, :new)"), new)
    values = {"id": task, "spec": json.dumps(spec)}
    connection.execute(sa.text("UPDATE tasks SET spec = :spec WHERE id = :id"), values)
