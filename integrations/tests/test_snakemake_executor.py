"""The executor for Snakemake: bulk, refusals, retries, reasons."""

import os
import subprocess
import sys
from pathlib import Path

from server import LocalServer
from workflow import Workflow, newest, outputs, write

from pilotage.client import Client

GROWING = """\
rule all:
    output: "done.txt"
    resources: mem_mb=lambda wildcards, attempt: 600 * attempt
    shell: "test {resources.mem_mb} -gt 1000 || {{ echo 'too little' >&2; exit 7; }}; touch {output}"
"""


def test_jobs_of_one_rule_are_one_task_and_names_have_blanks(workflow: Workflow, client: Client) -> None:
    write(workflow, 4)
    log = workflow.run()
    assert outputs(workflow) == {f"{number} ä b": f"{number} ä b" for number in range(4)}
    (line,) = [line for line in log.splitlines() if line.startswith("Pilotage runs 4 jobs of each as task ")]
    task = client.task(int(line.rpartition("/")[2]))
    assert line.endswith(f"{client.url}/tasks/{task.id}")
    assert task.counts == {"finished": 4}
    spec = task["spec"]
    assert (spec["ram"], spec["ram_unit"], spec["walltime"], spec["cores"]) == (600, "MB", 600, 1)


def test_a_rule_that_no_queue_can_run_is_refused_with_the_cheapest_change(workflow: Workflow) -> None:
    write(workflow, 2)
    log = workflow.run("--set-resources", "each:mem_mb=900000", code=1)
    assert "cheapest change: memory, you: ask for ram: 4000; opens 1 queue: local-cores" in log
    assert workflow.begun() == []
    log = workflow.run("--pilotage-queue", "nowhere", code=1)
    assert "there is no queue 'nowhere'" in log


def test_a_folder_that_payloads_cannot_use_is_named(server: LocalServer, tmp_path: Path) -> None:
    workflow = Workflow(tmp_path, server.environment)
    write(workflow, 1, "true")
    assert f"payloads cannot use {tmp_path} at this queue: " in workflow.run(code=1)


def test_a_job_that_fails_is_tried_again_with_more_memory(workflow: Workflow, client: Client) -> None:
    (workflow.folder / "Snakefile").write_text(GROWING)
    log = workflow.run("--retries", "1")
    assert "Trying to restart job" in log
    assert [task["spec"]["ram"] for task in newest(client, 2)] == [1200, 600]
    (file,) = (workflow.folder / ".snakemake" / "pilotage_logs").iterdir()
    assert "too little" in file.read_text()


def test_a_variable_of_the_workflow_reaches_jobs_as_a_secret(workflow: Workflow, client: Client) -> None:
    (workflow.folder / "Snakefile").write_text(
        'envvars: "PASSPHRASE"\nrule all:\n    output: "length.txt"\n'
        '    shell: "printf %s \\"$PASSPHRASE\\" | wc -c > {output}"\n'
    )
    workflow.environment["PASSPHRASE"] = "correct horse"
    log = workflow.run()
    assert (workflow.folder / "length.txt").read_text().strip() == "13"
    (task,) = newest(client, 1)
    assert "correct horse" not in log + str(task.to_dict())
    # Runs of other tests that were killed left theirs.
    assert not any(secret["name"].endswith("PASSPHRASE") for secret in client.secrets())


def test_the_log_has_why_a_job_waits(workflow: Workflow) -> None:
    """After a second instead of a minute."""
    patch = "import pilotage.client.session as session; session.LONG_WAIT = 1"
    workflow.module = ("-c", f"{patch}; from snakemake.cli import main; main()")
    write(workflow, 2)
    process = workflow.start("--pilotage-queue", "closed-cores")
    workflow.wait_for("waits: 2 jobs wait for a queue that can take them")
    workflow.interrupt(process)


def test_a_wrong_address_is_an_error_at_once(workflow: Workflow) -> None:
    write(workflow, 1)
    log = workflow.run("--pilotage-url", "http://127.0.0.1:9", code=1)
    assert "Pilotage: no answer from http://127.0.0.1:9" in log
    log = workflow.run("--pilotage-url", "nonsense", code=1)
    assert "Pilotage: url: does not begin with http://" in log


def test_the_plugin_loads_nothing_of_pilotage_before_the_first_job() -> None:
    code = (
        "import snakemake_interface_executor_plugins.executors.remote, sys, time;"
        "begun = time.perf_counter();"
        "import snakemake_executor_plugin_pilotage; seconds = time.perf_counter() - begun;"
        "assert seconds < 0.3, seconds; assert not {'pilotage', 'httpx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
