"""What happens to a workflow on Pilotage when one side ends: Snakemake, the server, a pilot, a token."""

import signal
from collections import Counter

from server import LocalServer, wait_for
from workflow import HELD, Workflow, newest, outputs, write

from pilotage.client import Client


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
