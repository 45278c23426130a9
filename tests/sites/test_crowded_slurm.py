"""A site that other people use, too, seen by an observer that asks Slurm itself (M2, M5).

PLACEMENTS=1000 makes it longer: 40 jobs are placed by default.
"""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.acceptance.house import House, running

from .slurm import Slurm

MAX_JOBS = 12
MAX_PENDING = 6
PERIOD = 2.0
LONGEST_ANSWER = 12.0
"""Seconds from the end of a silence to the next advertisement: two slow commands, and a period."""

WINDOW = 3 * PERIOD + 6
"""Seconds for which an advertisement may be used (M5), and until a pilot that it allowed is in Slurm."""

FEDERATION = f"""
name: crowded
sites:
  - {{{{ name: cluster, nucleus: true, max_jobs: {MAX_JOBS}, max_pending_jobs: {MAX_PENDING} }}}}
storages:
  - {{{{ name: disk, site: cluster, url: "file://{{place}}/disk", storage_min_free: 0 }}}}
queues:
  - name: cluster-main
    site: cluster
    storage: disk
    cores: 1
    computing_element:
      kind: slurm
      max_pilots: 40
      pilot_slots: 1
      pilot_walltime: 600
      options: {{{{ spool: "{{place}}/spool", partition: main }}}}
director: {{{{ policy: balanced }}}}
brokerage: {{{{ advertise_period: {PERIOD}, match_period: 1 }}}}
loops: {{{{ period: 0.5, heartbeat: 1, pilot_idle: 20 }}}}
"""

PLACED = ("assigned", "activated", "sent", "starting", "running")

SQUEUE = """\
#!/bin/sh
case $(cat {mood}) in
  slow) sleep 3 ;;
  dead) echo "squeue: error: Unable to contact slurm controller" >&2; exit 1 ;;
esac
exec {squeue} "$@"
"""


class Crowd:
    """Other people's jobs in Slurm, and the mood of its ``squeue``. Both change every few seconds."""

    def __init__(self, slurm: Slurm, squeue: str, mood: Path, draws: random.Random) -> None:
        self.slurm, self.squeue, self.mood, self.draws = slurm, squeue, mood, draws
        self.next_change = 0.0
        self.history = [(time.time(), 0, 0)]
        self.last_answer = self.last_silence = time.time()
        self.pilots: set[int] = set()

    def change(self) -> None:
        """Let jobs of other people begin or end, and Slurm have another mood, if it is time."""
        now = time.time()
        if now < self.next_change:
            return
        self.next_change = now + self.draws.uniform(3, 12)
        self.mood.write_text(self.draws.choice(["well", "well", "well", "slow", "dead"]))
        numbers = self.slurm.call(self.squeue, "-h", "-n", "other", "-o", "%i").split()
        count = self.draws.randint(0, 2 * MAX_JOBS // 3)
        for number in numbers[count:]:
            self.slurm.call("scancel", number, check=False)
        for _ in range(count - len(numbers)):
            self.slurm.call("sbatch", "-J", "other", "-o", "/dev/null", "--wrap", "sleep 600")

    def count(self, house: House) -> tuple[Mapping[str, int], int, int]:
        """Return our pilots by state, and the fewest other jobs of the window: all, and those that wait.

        A pilot that has reported its end may still exit in Slurm, and holds no room there.
        """
        lines = self.slurm.call(self.squeue, "-h", "-r", "-o", "%i %j %T").splitlines()
        pilots = house.call("GET", "/pilots")["pilots"]
        live = [pilot for pilot in pilots if pilot["state"] in ("created", "submitted", "running")]
        leaving = {pilot["reference"].partition("/")[0] for pilot in pilots if pilot not in live}
        decided = min(
            (pilot["created"] for pilot in live if pilot["id"] not in self.pilots), default=time.time()
        )
        jobs = [line.split() for line in lines]
        numbers = {job[0] for job in jobs}
        self.pilots.update(pilot["id"] for pilot in live if pilot["reference"].partition("/")[0] in numbers)
        states = Counter(state for number, name, state in jobs if name != "other" and number not in leaving)
        others = Counter(state for _, name, state in jobs if name == "other")
        self.history.append((time.time(), others["PENDING"] + others["RUNNING"], others["PENDING"]))
        if self.mood.read_text() == "dead":
            self.last_silence = time.time()
        elif time.time() > self.last_silence + LONGEST_ANSWER:
            self.last_answer = time.time()
        # A silent site is bounded by its last report (M8). A new pilot was decided before it came to Slurm.
        begin = min(self.last_answer, decided) - WINDOW
        old = [entry for entry in self.history if entry[0] <= begin]
        # The number before the window was true until the next look.
        recent = [*old[-1:], *self.history[len(old) :]]
        return states, min(entry[1] for entry in recent), min(entry[2] for entry in recent)

    def changes(self) -> str:
        """Return when the number of other jobs changed: seconds ago, all, and those that wait."""
        now, before, lines = time.time(), (-1, -1), []
        for moment, count, waiting in self.history:
            if (count, waiting) != before and moment > now - 60:
                lines.append(f"{now - moment:.1f} s ago {count} and {waiting}")
            before = count, waiting
        return "; ".join(lines)


@pytest.mark.slow
def test_m5_a_site_is_not_overrun_beside_other_people_on_slurm(
    tmp_path: Path, slurm: Slurm, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our jobs and pilots become more only if they fit beside the fewest other jobs of the window."""
    squeue, mood, wrapper = str(shutil.which("squeue")), tmp_path / "mood", tmp_path / "bin" / "squeue"
    wrapper.parent.mkdir()
    wrapper.write_text(SQUEUE.format(mood=mood, squeue=squeue))
    wrapper.chmod(0o755)
    mood.write_text("well")
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    placements = int(os.environ.get("PLACEMENTS", "40"))
    task = {"nucleus": "cluster", "command": ["true"], "scouts": 0}
    task["parameters"] = {"number": [*range(placements // 2)]}
    tasks = [{"name": plugin, "brokerage": plugin, **task} for plugin in ("production", "matchmaking")]
    crowd, before, most = Crowd(slurm, squeue, mood, random.Random(45)), Counter[str](), Counter[str]()
    with running(tmp_path, free_port, FEDERATION.format(place=tmp_path), "disk") as house:
        numbers = [answer["id"] for answer in house.call("POST", "/tasks", {"tasks": tasks})["tasks"]]
        while (jobs := _jobs(house, numbers))["finished"] < placements:
            crowd.change()
            pilots, others, waiting = crowd.count(house)
            count = _count(jobs, pilots)
            limits = {
                "jobs": MAX_JOBS - others,
                "pilots": MAX_JOBS - others,
                "pending": MAX_PENDING - waiting,
            }
            for name, limit in limits.items():
                excess = count[name] > max(before[name], limit)
                assert not excess, (
                    f"{count} after {before}; others: {crowd.changes()}\n{house.command('sites')}"
                )
                most[name] = max(most[name], count[name])
            before = count
        assert most["jobs"] >= MAX_JOBS // 2, most
        print(most)


def _jobs(house: House, tasks: Sequence[int]) -> Counter[str]:
    """Return the jobs of tasks by state."""
    return sum((Counter(house.call("GET", f"/tasks/{task}")["jobs"]) for task in tasks), Counter())


def _count(jobs: Mapping[str, int], pilots: Mapping[str, int]) -> Counter[str]:
    """Return our jobs that were placed and have not ended, our pilots, and those that wait."""
    return Counter(
        jobs=sum(jobs.get(state, 0) for state in PLACED),
        pilots=pilots.get("PENDING", 0) + pilots.get("RUNNING", 0),
        pending=pilots.get("PENDING", 0),
    )
