"""A batch system that can be away, hang, lie and take its time: its commands, behind a mode."""

from collections.abc import Mapping
from pathlib import Path

SUBMISSION = 45
"""Seconds that a submission takes in the mode ``slow``: more than a server waits for another one's answer."""

_SCRIPT = """#!/bin/sh
case "$(cat {place}/mode) {name}" in
away*) echo "cannot connect to server" >&2; exit 1 ;;
hanging*) exec sleep 20 ;;
"forgetful qstat") echo '{{"Jobs": {{}}}}'; exit 0 ;;
"forgetful qselect") exit 0 ;;
"ending qstat") {run} "$@" | sed 's/"job_state": "R"/"job_state": "F", "Exit_status": 0/g'; exit 0 ;;
"losing qsub" | "losing sbatch") {run} "$@" >/dev/null; exit 1 ;;
"slow qsub" | "slow sbatch") sleep {submission} ;;
esac
exec {run} "$@"
"""


class BatchSystem:
    """The commands in ``commands``, each behind the mode. ``real`` has the command line of each.

    ``modes`` are those in which it is wrong. Away: each command fails; hanging: it does not end;
    forgetful: it knows no job; ending: it takes each job for ended; losing: it submits, and says that it
    failed.
    """

    def __init__(self, place: Path, real: Mapping[str, str], modes: tuple[str, ...]) -> None:
        self._mode, self.modes = place / "mode", modes
        self.commands = place / "commands"
        self.commands.mkdir(parents=True)
        self.set("")
        for name, run in real.items():
            script = self.commands / name
            script.write_text(_SCRIPT.format(place=place, run=run, name=name, submission=SUBMISSION))
            script.chmod(0o755)

    def set(self, mode: str) -> bool:
        """Answer in a mode; empty: rightly. Returns False, without effect, while it is in another one."""
        if mode and self._mode.read_text():
            return False
        self._mode.write_text(mode)
        return True
