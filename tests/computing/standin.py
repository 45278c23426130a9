"""Stand-in for the commands of PBS and LSF: jobs are processes of this machine, answers have their real form.

``install`` puts it into a directory under the names of the commands.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("qsub", "qstat", "qdel", "bsub", "bjobs", "bkill")


def install(folder: Path) -> str:
    """A directory with the commands; their jobs are known there."""
    (folder / "jobs").mkdir(parents=True)
    for name in COMMANDS:
        script = f'#!/bin/sh\nexec {sys.executable} {__file__} {folder}/jobs {name} "$@"\n'
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return str(folder)


def install_failing(folder: Path, commands: str) -> str:
    """A directory with the same commands, of which those that submit fail after they did so."""
    folder.mkdir()
    for name in COMMANDS:
        failing = "; echo 'hook failed' >&2; exit 1" if name in ("qsub", "bsub") else ""
        (folder / name).write_text(
            f'#!/bin/sh\n{commands}/{name} "$@"{" >/dev/null" if failing else ""}{failing}\n'
        )
        (folder / name).chmod(0o755)
    return str(folder)


def main(place: Path, command: str, arguments: list[str]) -> None:
    """Do what a command would do."""
    if command in ("qsub", "bsub"):
        _submit(place, command == "qsub", arguments)
    elif command == "qstat":
        _qstat(place, arguments[arguments.index("json") + 1 :])
    elif command == "bjobs":
        _bjobs(place)
    else:
        _end(place, arguments)


def _submit(place: Path, is_pbs: bool, arguments: list[str]) -> None:
    script = sys.stdin.read()
    told = dict(itertools.pairwise(arguments))
    if told.get("-q") == "nowhere":
        sys.exit("qsub: Unknown queue" if is_pbs else "nowhere: No such queue. Job not submitted.")
    name, count = told["-N" if is_pbs else "-J"], 0
    if is_pbs and "-J" in told:
        count = int(told["-J"].partition("-")[2])
    elif name.endswith("]"):
        name, _, indexes = name.rstrip("]").partition("[")
        count = int(indexes.partition("-")[2])
    number = len(list(place.glob("*"))) + 1
    for at in range(1, count + 1) if count else (0,):
        job = f"{number}[{at}]" if at else str(number)
        job = f"{job}.pbs" if is_pbs else job
        index = "^array_index^" if is_pbs else "%I"
        with Path(told["-o"].replace(index, str(at))).open("a") as log:
            variable = "PBS_ARRAY_INDEX" if is_pbs else "LSB_JOBINDEX"
            process = subprocess.Popen(
                ["sh", "-s"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, variable: str(at or 1)},
            )
            assert process.stdin
            process.stdin.write(script)
            process.stdin.close()
        (place / job).write_text(json.dumps({"name": name, "pid": process.pid}))
    whole = f"{number}[]" if count else str(number)
    print(f"{whole}.pbs" if is_pbs else f"Job <{number}> is submitted to default queue <normal>.")


def _is_live(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def _jobs(place: Path) -> dict[str, tuple[str, bool]]:
    found = {}
    for file in sorted(place.iterdir()):
        told = json.loads(file.read_text())
        found[file.name] = (told["name"], _is_live(told["pid"]))
    return found


def _qstat(place: Path, wanted: list[str]) -> None:
    jobs = _jobs(place)
    shown = {job: jobs[job] for job in wanted or jobs if job in jobs}
    document = {
        job: {"Job_Name": name, "job_state": "R" if live else "F", "queue": "workq"}
        | ({} if live else {"Exit_status": 271})
        for job, (name, live) in shown.items()
    }
    print(json.dumps({"timestamp": 1, "pbs_version": "0.0", "pbs_server": "pbs", "Jobs": document}))
    for job in set(wanted) - set(jobs):
        print(f"qstat: Unknown Job Id {job}", file=sys.stderr)
    sys.exit(153 if set(wanted) - set(jobs) else 0)


def _bjobs(place: Path) -> None:
    jobs = _jobs(place)
    if not jobs:
        sys.exit("No job found")
    for job, (name, live) in jobs.items():
        number, _, index = job.rstrip("]").partition("[")
        state, code = ("RUN", "-") if live else ("EXIT", "143")
        shown = f"{name}[{index}]" if index else name
        print(f"{number}|{index or 0}|{state}|{code}|normal|{shown}|-|-")


def _end(place: Path, jobs: list[str]) -> None:
    for job in jobs:
        pid = json.loads((place / job).read_text())["pid"]
        if _is_live(pid):
            os.killpg(pid, signal.SIGTERM)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
