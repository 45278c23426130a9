"""Four processes commit at random while some are killed: what the store's history then shows.

``OPERATIONS=1000000`` makes that many commits in all.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.store import Store
from pilotage.store.history.events import unpacked
from tests.chaos.verdict import Evidence, counters_agree, events_agree, use_agrees

from .random_writer import AT_QUEUE, LIMIT

pytestmark = pytest.mark.endurance

OPERATIONS = int(os.environ.get("OPERATIONS", "2000"))
PROCESSES = 4
KILL_EVERY = 3.0
"""Mean seconds between two kills."""
KILLS = min(200, OPERATIONS // 500)
"""Most kills. A writer in place of a killed one takes a second to start, and then makes its whole part."""


def test_no_kill_breaks_a_history(store: Store, store_url: str, tmp_path: Path) -> None:
    kills = _write_at_random(store_url, tmp_path, random.Random(48))
    matches = Counter(line for notes in tmp_path.glob("*.notes") for line in notes.read_text().split())
    assert kills > 0
    assert len(matches) > OPERATIONS / 100, "few matches would show nothing"
    assert [match for match, times in matches.items() if times > 1] == [], "a job was given twice"
    store.add_measurements()
    with store.database.engine.connect() as connection:
        evidence = Evidence(connection=connection, place=tmp_path, expected={})
        faults = [
            *counters_agree(evidence),
            *events_agree(evidence),
            *use_agrees(evidence),
            *_passed_limits(evidence),
        ]
        faults += _lost_matches(evidence, matches)
    assert faults == []


def _write_at_random(url: str, place: Path, dice: random.Random) -> int:
    """Let processes write, replace the ones that are killed, and return how many were."""
    seeds, kills, each = iter(range(1_000_000)), 0, max(1, OPERATIONS // PROCESSES)

    def start() -> subprocess.Popen[bytes]:
        seed = next(seeds)
        words = [url, str(seed), str(place / f"{seed}.notes"), str(each)]
        return subprocess.Popen([sys.executable, "-m", "tests.store.random_writer", *words])

    writers = [start() for _ in range(PROCESSES)]
    until = time.monotonic() + dice.uniform(0.5, 2) * KILL_EVERY
    while any(writer.poll() is None for writer in writers):
        time.sleep(0.1)
        if time.monotonic() > until and kills < KILLS:
            until = time.monotonic() + dice.uniform(0.5, 1.5) * KILL_EVERY
            number = dice.randrange(PROCESSES)
            if writers[number].poll() is None:
                writers[number].kill()
                writers[number].wait()
                writers[number] = start()
                kills += 1
    assert {writer.returncode for writer in writers} == {0}
    return kills


def _passed_limits(evidence: Evidence) -> Iterator[str]:
    """Yield the moments at which a queue had more jobs than its limit, by the events in their order."""
    queues = dict(evidence.rows("SELECT id, queue FROM jobs"))
    states: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for number, target, records in evidence.rows(
        "SELECT events.id, target, records FROM events JOIN meanings ON meanings.id = events.meaning"
        " WHERE kind = 'job' ORDER BY events.id"
    ):
        for job in unpacked(records):
            counts[queues[job]] += (target in AT_QUEUE) - (states.get(job) in AT_QUEUE)
            states[job] = target
            if counts[queues[job]] > LIMIT:
                yield f"event {number}: {queues[job]} has {counts[queues[job]]} jobs"


def _lost_matches(evidence: Evidence, matches: Counter[str]) -> Iterator[str]:
    """Yield the matches that the store answered, and that no event shows."""
    sent: Counter[int] = Counter()
    for (records,) in evidence.rows(
        "SELECT records FROM events JOIN meanings ON meanings.id = events.meaning"
        " WHERE kind = 'job' AND target = 'sent'"
    ):
        sent.update(unpacked(records))
    noted = Counter(int(match.partition(".")[0]) for match in matches)
    for job, times in noted.items():
        if times > sent[job]:
            yield f"job {job} was given {times} times, and its events show {sent[job]}"
