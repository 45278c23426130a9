"""The executor for Snakemake: bulk, refusals, retries, and what happens when one side ends."""

import os
import signal
import subprocess
import sys
from collections import Counter

from conftest import Workflow
from server import LocalServer, wait_for

from pilotage.client import Client

MANY = """\
NAMES = [f"{{number}} ä b" for number in range({count})]
rule all:
    input: expand("out/{{name}}.txt", name=NAMES)
rule each:
    output: "out/{{name}}.txt"
    resources: mem_mb=600, runtime=10
    shell:
        "echo '{{wildcards.name}}' | tr -d ' ' >> begun.txt; {command}; "
        "echo '{{wildcards.name}}' > '{{output}}'"
"""

HELD = "while ! test -e go; do sleep 0.1; done"
"""A command that runs until the test lets it end."""

GROWING = """\
rule all:
    output: "done.txt"
    resources: mem_mb=lambda wildcards, attempt: 600 * attempt
    shell: "test {resources.mem_mb} -gt 1000 || {{ echo 'too little' >&2; exit 7; }}; touch {output}"
"""


def write(workflow: Workflow, count: int, command: str = "true") -> None:
    """Write a workflow of many jobs of one rule."""
    (workflow.folder / "Snakefile").write_text(MANY.format(count=count, command=command))


def outputs(workflow: Workflow) -> dict[str, str]:
    """Return the content of each output by its name."""
    return {file.stem: file.read_text().strip() for file in (workflow.folder / "out").glob("*.txt")}


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


def test_a_job_that_fails_is_tried_again_with_more_memory(workflow: Workflow, client: Client) -> None:
    (workflow.folder / "Snakefile").write_text(GROWING)
    log = workflow.run("--retries", "1")
    assert "Trying to restart job" in log
    assert [task["spec"]["ram"] for task in newest(client, 2)] == [1200, 600]
    (file,) = (workflow.folder / ".snakemake" / "pilotage_logs").iterdir()
    assert "too little" in file.read_text()


def newest(client: Client, count: int) -> list[object]:
    """Return the newest tasks, whole."""
    return [client.task(task.id) for task in client.tasks(limit=count)]


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
    assert list(client.secrets()) == []


def test_a_killed_run_is_taken_up_and_no_job_runs_twice(workflow: Workflow) -> None:
    write(workflow, 4, HELD)
    first = workflow.start()
    wait_for(workflow.begun, "a job has begun")
    first.kill()
    first.wait()
    workflow.run("--unlock")
    second = workflow.start("--rerun-incomplete")
    workflow.wait_for("of an earlier run is job")
    log = workflow.let_go(second)
    assert Counter(workflow.begun()) == {f"{number}äb": 1 for number in range(4)}
    assert len(outputs(workflow)) == 4
    assert log.count("Pilotage runs") == 1


def test_a_token_ends_in_the_middle_and_a_new_one_takes_over(
    workflow: Workflow, server: LocalServer, client: Client
) -> None:
    home = server.folder / "home of ann"
    home.mkdir()
    tokens = [client.make_token("ann"), client.make_token("ann")]
    (*_, first) = [token["id"] for token in client.tokens() if token["name"] == "ann"]
    (home / "token").write_text(tokens[0])
    workflow.environment |= {"PILOTAGE_HOME": str(home)}
    write(workflow, 3, HELD)
    process = workflow.start()
    wait_for(workflow.begun, "a job has begun")
    client.revoke_token(first)
    workflow.wait_for("does not know you")
    (home / "token").write_text(tokens[1])
    workflow.let_go(process)
    assert len(outputs(workflow)) == 3
    assert all(token not in workflow.log for token in tokens)


def test_an_interruption_cancels_the_jobs(workflow: Workflow, client: Client) -> None:
    write(workflow, 4, HELD)
    process = workflow.start()
    wait_for(workflow.begun, "a job has begun")
    workflow.interrupt(process)
    (task,) = newest(client, 1)
    wait_for(lambda: task.refresh().has_ended, "the task has ended", 30)
    assert task.counts == {"cancelled": 4}


def test_a_detached_run_leaves_its_jobs_to_the_next(workflow: Workflow, client: Client) -> None:
    write(workflow, 3, HELD)
    process = workflow.start("--pilotage-detach")
    wait_for(workflow.begun, "a job has begun")
    workflow.interrupt(process)
    (task,) = newest(client, 1)
    assert not task.has_ended
    second = workflow.start("--rerun-incomplete")
    workflow.wait_for("of an earlier run is job")
    workflow.let_go(second)
    assert Counter(workflow.begun()) == {f"{number}äb": 1 for number in range(3)}


def test_the_log_has_why_a_job_waits(workflow: Workflow) -> None:
    """After a second instead of a minute."""
    patch = "import snakemake_executor_plugin_pilotage.executor as executor; executor.LONG_WAIT = 1"
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


def test_a_job_whose_pilot_is_killed_runs_again(workflow: Workflow, server: LocalServer) -> None:
    write(workflow, 1, HELD)
    process = workflow.start()
    wait_for(workflow.begun, "the job has begun")
    server.stop_pilots(signal.SIGKILL)
    wait_for(lambda: len(workflow.begun()) == 2, "the job has begun again")
    workflow.let_go(process)
    assert outputs(workflow) == {"0 ä b": "0 ä b"}


def test_a_server_restarts_in_the_middle(workflow: Workflow, server: LocalServer) -> None:
    write(workflow, 3, HELD)
    process = workflow.start()
    wait_for(workflow.begun, "a job has begun")
    server.stop(signal.SIGKILL)
    workflow.wait_for("Jobs go on; Snakemake asks again.")
    server.start()
    workflow.wait_for("Pilotage answers again.")
    workflow.let_go(process)
    assert Counter(workflow.begun()) == {f"{number}äb": 1 for number in range(3)}
