"""Questions of newcomers, operators and developers: two clicks from the start answer each."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+\.md)[^)\s]*\)")
CLICKS = 2

QUESTIONS = {
    # Newcomers
    "How do I run something at all?": ("docs/tutorials/first-task.md", "pilotage submit task.yaml --watch"),
    "Why does my job wait?": ("docs/how-to/explain.md", "pilotage set 6 ram=4000"),
    "How do I run only the failed jobs again?": ("docs/how-to/retry.md", "pilotage retry 12"),
    "My job was killed for its memory. What now?": ("docs/how-to/memory.md", "--set ram=4000"),
    "How do I get my results?": ("docs/how-to/files.md", "pilotage fetch"),
    "How do I run one task after another?": ("docs/how-to/chains.md", "after: [12, align]"),
    "Can I use my cluster from a laptop?": ("docs/tutorials/slurm.md", "--tunnel"),
    "How do I use it from a notebook?": ("docs/tutorials/notebook.md", "client = Client()"),
    "Does Pilotage itself try again with more memory?": (
        "docs/how-to/memory.md",
        "asks for 1.5 times as much",
    ),
    "What happens to my jobs when I close my laptop?": (
        "docs/tutorials/slurm.md",
        "Jobs that run at the cluster go on while your laptop sleeps",
    ),
    "How does a colleague read my results?": ("docs/how-to/sharing.md", "pilotage grant 12 bob"),
    "How often is a failed job tried again?": ("docs/how-to/retry.md", "three attempts in all"),
    "What does 'waiting for a slot' mean?": (
        "docs/reference/states.md",
        "| waiting for a slot | activated |",
    ),
    "How many core hours have I used?": ("docs/how-to/usage.md", "pilotage usage --by task"),
    "How do I run in a container?": ("docs/how-to/containers.md", "container_name:"),
    "How do I delete a task and its results?": ("docs/how-to/remove.md", "pilotage delete 12 --outputs"),
    "What is asked most often?": ("docs/README.md", "| May I close my laptop? | Yes,"),
    # Operators
    "How many jobs may one person have?": ("docs/how-to/sharing.md", "jobs_by_user: 10000"),
    "One node fails every job. What happens?": ("docs/explanation/pilots.md", "**Five jobs** of one task"),
    "A queue has no container runtime. What now?": ("docs/how-to/doctor.md", "install Apptainer, then"),
    "How do I add a cluster?": ("docs/how-to/add-site.md", "pilotage federation add slurm"),
    "A site is broken. How do I keep work away from it?": (
        "docs/how-to/breakers.md",
        "pilotage queues drain",
    ),
    "How do I give groups their part?": ("docs/how-to/sharing.md", "shares:"),
    "How do I back up, and come back?": ("docs/how-to/backup.md", "pilotage store restore"),
    "How do I upgrade?": ("docs/how-to/upgrade.md", "pip install --upgrade"),
    "How do I empty a site before maintenance?": ("docs/how-to/breakers.md", "pilotage sites drain NAME"),
    "How do I move a storage?": ("docs/how-to/move-storage.md", "pilotage storages move"),
    "Somebody leaves. What now?": ("docs/how-to/tokens.md", "pilotage people close"),
    "How do I keep it up?": ("docs/how-to/high-availability.md", "target_session_attrs"),
    "How do I watch the server?": ("docs/how-to/metrics.md", "alerts.yml"),
    "What is wrong with my installation?": ("docs/how-to/doctor.md", "pilotage doctor"),
    "What is stuck?": ("docs/how-to/doctor.md", "pilotage stuck"),
    "Which variables set what the server does?": ("docs/reference/settings.md", "`PILOTAGE_STORE`"),
    "The store is lost. Where are the results?": (
        "docs/how-to/backup.md",
        "tasks/FEDERATION/TASK/JOB/NAME",
    ),
    "Would another policy have done better yesterday?": (
        "docs/how-to/simulate.md",
        "pilotage simulate --day yesterday",
    ),
    "A storage's token ends tonight. What now?": (
        "docs/how-to/storages.md",
        "to renew the token, replace the file",
    ),
    # Developers
    "How do I list what waits, from a program?": ("docs/reference/client.md", "`word` is `waiting`"),
    "How do I repeat a decision of yesterday?": ("docs/how-to/explain.md", "pilotage replay 2026"),
    "What is lost, and why?": ("docs/how-to/usage.md", "| lost | core time of attempts"),
    "How does my program follow what happens?": ("docs/how-to/events.md", "client.events("),
    "How do I add a check or a weight?": ("docs/how-to/plugin.md", "pilotage.brokerage"),
    "How do I write an adapter?": ("docs/how-to/adapter.md", "pilotage.computing"),
    "Which files does a new field of a task touch?": ("CONTRIBUTING.md", "| a field of a task | 4:"),
    "How does a step decide, and who writes?": (
        "docs/explanation/architecture.md",
        "A policy is a function from a world to a decision",
    ),
    "How do I run one test, or repeat a random one?": ("CONTRIBUTING.md", 'OPTIONS="-k slurm"'),
    "Why was it built so?": ("docs/decisions/README.md", "rejected alternatives"),
}


def reached(clicks: int) -> set[str]:
    """Pages that so many clicks reach from the start."""
    found = {"docs/README.md"}
    for _ in range(clicks):
        found |= {
            os.path.normpath(Path(page).parent / link)
            for page in found
            if (ROOT / page).exists()
            for link in LINK.findall((ROOT / page).read_text())
        }
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_two_clicks_from_the_start(question: str) -> None:
    page, answer = QUESTIONS[question]
    assert page in reached(CLICKS)
    assert answer in (ROOT / page).read_text()
