"""The executor: submits jobs in bulk, waits for them, cancels them, and finds those of an earlier run."""

import json
import os
import shlex
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage
from snakemake_interface_executor_plugins.utils import encode_target_jobs_cli_args

if TYPE_CHECKING:
    from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

    from pilotage.client import Client
    from pilotage.client.session import Session

    from .batches import Batch, Row
    from .earlier import EarlierJob, EarlierJobs

# The modules that need Pilotage's client are imported at the first job: Snakemake imports all
# plugins at each start.

PACE = 1.0
"""Seconds between two looks at the server's events."""

MOST_LOGS = 100
"""Most logs of failed jobs that are read."""


class Executor(RemoteExecutor):
    """Runs jobs of Snakemake as jobs of Pilotage."""

    def __post_init__(self) -> None:
        """Take the pace of the event log."""
        from . import ExecutorSettings

        self._settings = self.executor_settings or ExecutorSettings()
        setting = self.workflow.remote_execution_settings.seconds_between_status_checks
        self.next_seconds_between_status_checks = setting if setting > 10 else PACE
        if self.workflow.remote_execution_settings.immediate_submit:
            raise WorkflowError(
                "Pilotage cannot run jobs before their inputs are there: no --immediate-submit"
            )
        self._infos: dict[tuple[int, int], SubmittedJobInfo] = {}
        self._targets: set[str] = set()
        self._secrets: list[str] = []
        self._logs = 0

    @cached_property
    def _session(self) -> "Session[Client]":
        from pilotage.client import Client
        from pilotage.client.session import Session

        try:
            client = Client(url=self._settings.url, home=self._settings.home)
        except ValueError as error:
            raise WorkflowError(f"Pilotage: {error}") from error
        return Session(client, "Snakemake", self.logger)

    @cached_property
    def _label(self) -> str:
        """What the tasks of this working directory are found by."""
        from .batches import digest

        return digest(str(self.workflow.workdir_init))

    @cached_property
    def _earlier(self) -> "EarlierJobs":
        from .earlier import EarlierJobs

        return self._session.persevere(lambda: EarlierJobs(self._session.client, self._label))

    # Submission

    def run_job(self, job: "JobExecutorInterface") -> None:
        """Submit one job."""
        self.run_jobs([job])

    def run_jobs(self, jobs: "Sequence[JobExecutorInterface]") -> None:
        """Submit jobs: those of one rule with equal resources as one task."""
        from pilotage.client import ClientError

        from .batches import batches

        for job in jobs:
            self.run_job_pre(job)
        try:
            self._session.persevere(self._session.states.begin)
            rows = [row for job in jobs if not self._takes_up(row := self._row(job))]
            fields = [(rule_name(row.job), self._fields(row.job), row) for row in rows]
        except ClientError as error:
            raise WorkflowError(f"Pilotage: {error}") from error
        for batch in batches(fields):
            try:
                self._submit(batch)
            except ClientError as error:
                for row in batch.rows:
                    self.report_job_error(SubmittedJobInfo(row.job), msg=f"Pilotage: {error}\n")

    def _submit(self, batch: "Batch") -> None:
        self._session.check(batch.example(), json.dumps(batch.fields, sort_keys=True))
        document = batch.document(self._label, not self.is_default_jobscript) | self._surroundings
        if any(row.inputs for row in batch.rows):
            from .catalogue_files import inputs

            client, rows = self._session.client, [row.inputs for row in batch.rows]
            document["inputs"] = self._session.persevere(lambda: inputs(client, rows))
        count = f"{len(batch.rows)} jobs" if len(batch.rows) > 1 else "1 job"
        task = self._session.submit(document, f"{count} of {batch.rule}", batch.key)
        self._register({(task, index): row.job for index, row in enumerate(batch.rows)})

    def _register(self, jobs: "Mapping[tuple[int, int], JobExecutorInterface]") -> None:
        """Wait for jobs from now on, each by its task and its place there."""
        from .earlier import reference

        # All of a task are here before the other thread looks at the first.
        for (task, index), job in jobs.items():
            aux = {"task": task, "index": index}
            self._infos[task, index] = SubmittedJobInfo(job, external_jobid=reference(task, index), aux=aux)
        for task, _ in jobs:
            self._session.states.add(task)
        for place in jobs:
            self.report_job_submission(self._infos[place])

    @cached_property
    def _surroundings(self) -> dict[str, Any]:
        """Fields of all tasks: the variables that payloads need."""
        fields: dict[str, Any] = {}
        if SharedFSUsage.SOFTWARE_DEPLOYMENT in self.workflow.storage_settings.shared_fs_usage:
            # In the environment of a task with parameters, braces are doubled.
            path = os.environ.get("PATH", os.defpath).replace("{", "{{").replace("}", "}}")
            fields["environment"] = {"PATH": path}
        variables = self._storage_variables | self.envvars()
        for name, value in variables.items():
            secret = f"snakemake-{self._label[:12]}-{name}"
            self._session.persevere(partial(self._session.client.set_secret, secret, value))
            self._secrets.append(secret)
        if variables:
            pairs = zip(self._secrets, variables, strict=True)
            fields["secrets"] = [{"name": secret, "as": name} for secret, name in pairs]
        return fields

    @cached_property
    def _storage_variables(self) -> dict[str, str]:
        """Variables with which jobs reach the catalogue, if the workflow has files there."""
        from .catalogue_files import is_used, variables

        return variables(self._session.client) if is_used(self.workflow) else {}

    def _fields(self, job: "JobExecutorInterface") -> dict[str, Any]:
        from .resources import task_fields

        return task_fields(
            rule_name(job),
            job.threads,
            {name: value for name, value in job.resources.items() if value is not None},
            self._session.queues_of,
            queue=self._settings.queue,
            site=self._settings.site,
            conda=self._settings.conda,
        )

    def _row(self, job: "JobExecutorInterface") -> "Row":
        from .batches import Row, digest, fits
        from .catalogue_files import names_of

        targets = sorted(encode_target_jobs_cli_args(job.get_target_spec()))
        command = self.format_job_exec(job)
        if not self.is_default_jobscript:
            command = self.jobscript.format(properties=job.properties(), exec_job=command)
        if not fits(command):
            raise WorkflowError(
                f"rule {rule_name(job)}: the command of one job has {len(command)} characters, "
                "which is too long; make groups of fewer jobs"
            )
        name = ", ".join(targets)
        return Row(
            job=job,
            name=name if len(name) <= 200 else f"{name[:197]}...",
            target=digest(*targets),
            definition=digest(*map(definition, members(job))),
            command=command,
            inputs=names_of(members(job), self.workflow),
        )

    def get_job_exec_prefix(self, job: "JobExecutorInterface") -> str:  # noqa: ARG002
        """Return what a job's command begins with."""
        if self.workflow.storage_settings.assume_common_workdir:
            folder = str(self.workflow.workdir_init)
            lack = f"payloads cannot use {folder} at this queue: 'Let jobs read your folder' in use-snakemake"
            return f"cd {shlex.quote(folder)} 2>/dev/null || {{ echo {shlex.quote(lack)} >&2; exit 1; }}"
        return ""

    def get_job_args(self, job: "JobExecutorInterface") -> str:
        """Return a job's arguments: it has the cores of its task, also as a group, not those of the node."""
        return f"{super().get_job_args(job)} --cores {max(1, job.threads)}"

    def additional_general_args(self) -> str:
        """Let jobs without a shared disk run in their own folder, not in one with the name of this one."""
        return "" if self.workflow.storage_settings.assume_common_workdir else "--directory ."

    # Jobs of an earlier run

    def _takes_up(self, row: "Row") -> bool:
        """Wait for the job of an earlier run that does the same. Return whether there is one."""
        if row.target in self._targets:
            # Another attempt of this run.
            return False
        self._targets.add(row.target)
        earlier = self._earlier.live(row)
        if earlier and earlier.definition != row.definition:
            self._cancel_earlier(earlier)
            return False
        earlier = earlier or self._earlier.done(row, self.workflow.persistence.external_jobids(row.job))
        if earlier is None:
            return False
        self.logger.info(
            f"Job {row.name} of an earlier run is job {earlier.number} of Pilotage, {earlier.state}: "
            f"{self._session.page(earlier.task)}"
        )
        self._register({(earlier.task, earlier.index): row.job})
        return True

    def _cancel_earlier(self, earlier: "EarlierJob") -> None:
        """Cancel a job of an earlier run that makes the same in another way."""
        self.logger.info(f"Pilotage cancels job {earlier.number} of an earlier run: its rule has changed.")
        client = self._session.client
        self._session.persevere(lambda: client.cancel(f"job:{earlier.number}"))

    # States

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report jobs that have ended, and yield the others. A failure of the server changes nothing."""
        if not active_jobs:
            return
        self._session.refresh()
        for info in active_jobs:
            if not self._has_ended(info):
                yield info
        self._session.states.keep(task for task, _ in list(self._infos))

    def _has_ended(self, info: SubmittedJobInfo) -> bool:
        """Report the end of a job. Return whether it has ended."""
        from pilotage.client import ClientError
        from pilotage.client.job_states import DELETED, ENDED

        task, index = info.aux["task"], info.aux["index"]
        state = self._session.states.state(task, index)
        if state not in ENDED:
            return False
        if state == "finished":
            self._infos.pop((task, index), None)
            self.report_job_success(info)
            return True
        try:
            message, logs = (f"task {task} was deleted", []) if state == DELETED else self._failure(info)
        except ClientError as error:
            self._session.report_silence(error)
            return False
        if not message:
            return False
        self._infos.pop((task, index), None)
        self.report_job_error(info, msg=f"Pilotage: {message}\n", aux_logs=logs)
        return True

    def _failure(self, info: SubmittedJobInfo) -> tuple[str, list[str]]:
        """Return why a job failed, and files with its logs. Repeat it instead if its place failed."""
        task, index = info.aux["task"], info.aux["index"]
        number = self._session.states.number(task, index)
        if number is None or self._logs >= MOST_LOGS:
            return f"job {number} failed; see pilotage logs job:{number}", []
        client = self._session.client
        job = client.job(number)
        if self._session.repeats(job):
            return "", []
        self._logs += 1
        reason = ": ".join(job["error"].splitlines()[:2]) or f"it was {job.state}"
        page = self._session.page(task)
        return f"job {number}: {reason}; {page}, pilotage logs job:{number}", self._save_log(info, number)

    def _save_log(self, info: SubmittedJobInfo, number: int) -> list[str]:
        """Write what a job wrote into a file, which Snakemake names beside the error."""
        text = repr(self._session.client.logs(f"job:{number}"))
        folder = Path(self.workflow.persistence.path) / "pilotage_logs"
        file = folder / f"{info.aux['task']}-{info.aux['index']}.log"
        try:
            folder.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
        except OSError as error:
            self.logger.warning(f"Pilotage: the log of job {number} cannot be written: {error}")
            return []
        return [str(file)]

    # The end

    def cancel(self) -> None:
        """Cancel the jobs of this run, or with ``--pilotage-detach`` leave them."""
        if self._settings.detach:
            self.logger.info("Pilotage: the jobs go on. The next run in this directory waits for them.")
            with self.lock:
                self.wait = False
            self.wait_thread.join()
            # The jobs need the folder for temporary files, which `shutdown` would remove, and the empty
            # folders of their outputs, which Snakemake would.
            self.workflow.dag.cleanup_workdir = lambda: None
            return
        super().cancel()

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:  # noqa: ARG002
        """Cancel all jobs of this run that have not ended, also those that are looked at right now."""
        self._session.cancel(list(self._infos))

    def shutdown(self) -> None:
        """Stop looking, and take back the secrets of this run."""
        from pilotage.client import ClientError

        super().shutdown()
        for secret in self._secrets:
            try:
                self._session.client.remove_secret(secret)
            except ClientError as error:
                self.logger.warning(f"Pilotage: the secret {secret} is not removed: {error}")


def members(job: Any) -> Iterable[Any]:
    """Return the jobs of a group in a stable order, or the job itself."""
    if not job.is_group():
        return [job]
    return sorted(job.jobs, key=lambda member: (member.rule.name, sorted(map(str, member.output))))


def rule_name(job: Any) -> str:
    """Return the name of a job's rule, or of its group."""
    return f"group-{job.groupid}" if job.is_group() else job.rule.name


def definition(job: Any) -> str:
    """Return what defines how a job makes its outputs, but for its resources and this run's numbers."""
    properties = json.loads(job.properties())
    for name in ("jobid", "resources", "threads"):
        properties.pop(name, None)
    return json.dumps([properties, getattr(job, "shellcmd", None)], sort_keys=True, default=str)
