"""Causes of failed jobs, grouped."""

from dataclasses import dataclass

from pilotage.explain.failures import of_failed
from pilotage.model.records.states import JobState


@dataclass
class Failed:
    id: int
    error: str
    exit_code: int | None = 1
    queue: str = "lab"
    kind: str = "normal"
    state: JobState = JobState.FAILED


def test_causes_are_grouped_most_jobs_first_with_codes_ends_and_jobs() -> None:
    trace = "payload exited with code 1\nTraceback (most recent call last):\nKeyError: "
    jobs = [Failed(1, "killed by signal 9 (SIGKILL)", -9), *(Failed(n, f"{trace}{n}") for n in range(2, 7))]
    assert of_failed(jobs) == [
        "  5 jobs failed at lab, exit code 1 (jobs 2-6); job 2:",
        "    payload exited with code 1",
        "    Traceback (most recent call last):",
        "    KeyError: 2",
        "  1 job failed at lab, exit code -9 (job 1):",
        "    killed by signal 9 (SIGKILL)",
    ]


def test_only_the_end_of_a_long_error_is_told_and_only_the_first_causes() -> None:
    long = "\n".join(f"line {letter}" for letter in "abcdefghijkl")
    (head, dots, *lines) = of_failed([Failed(1, long, state=JobState.ASSIGNED)])
    assert head == "  1 job failed so far at lab, exit code 1 (job 1):"
    assert dots == "    ..."
    assert lines[-1] == "    line l"
    assert len(lines) == 8
    told = of_failed([Failed(n, f"error {chr(97 + n)}") for n in range(7)])
    assert told[-1] == "  and 2 other causes"


def test_jobs_of_a_cause_count_by_what_became_of_them() -> None:
    states = [JobState.CLOSED] * 8 + [JobState.FAILED] * 4 + [JobState.PENDING, JobState.ACTIVATED]
    (head, _) = of_failed([Failed(n, "no", state=state) for n, state in enumerate(states, 1)])
    assert head.startswith("  4 jobs failed, 8 closed after a failed attempt, 2 failed so far at lab, ")
