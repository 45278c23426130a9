"""A plain machine behind SSH: pilots are sessions of processes there, identified by pid and start time."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pilotage.adapters.computing.batch import BatchElement, BatchJob, BatchOptions, Profile, Request
from pilotage.adapters.computing.batch.profile import CommandFault
from pilotage.adapters.computing.batch.spool import spool_folder

START = "$(cut -d' ' -f22 /proc/$pid/stat 2>/dev/null)"
"""The start time of a process. The shell's name has no blanks, so the field is the 22nd."""

# First make a folder with the pilot's name: a repeated order finds the pilot there.
LAUNCH = (
    'd="${2%/logs/*}/processes"; umask 077; mkdir -p "$d" && cat >"$d/$1.sh" && { '
    'find "$d" -name exit -mtime +14 | while read -r old; do rm -rf "${old%/exit}" "${old%/exit}.sh"; done; '
    'if mkdir "$d/$1" 2>/dev/null; then setsid sh -c \'trap : TERM; pid=$$; echo "$pid.'
    + START.replace("'", "'\\''")
    + '" >"$1/new" && mv "$1/new" "$1/pid"; sh "$1.sh"; echo $? >"$1/exit"\' pilot "$d/$1" >"$2" 2>&1 '
    "</dev/null & fi; "
    'n=0; while [ ! -s "$d/$1/pid" ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done; cat "$d/$1/pid"; }'
)
END = (
    f'live() {{ pid=${{1%%.*}}; [ "{START}" = "${{1#*.}}" ]; }}; '
    'for job; do if live "$job"; then kill -s TERM -- "-${job%%.*}"; fi; done; n=0; '
    'for job; do while live "$job" && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done; '
    'if live "$job"; then kill -s KILL -- "-${job%%.*}"; fi; done; true'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions(BatchOptions):
    """Options of the machine and its connection."""

    def __post_init__(self) -> None:
        BatchOptions.__post_init__(self)
        if not self.ssh:
            raise ValueError("ssh: name the machine, as user@host or as in ~/.ssh/config")


class PlainProfile(Profile[SshOptions]):
    """Shell scripts instead of a batch system's commands. No pilot waits, and nothing limits pilots here."""

    kind = "ssh"
    index = "PILOTAGE_INDEX"
    array_size = 1
    canceller = ("sh", "-c", END, "end")

    def __init__(self, options: SshOptions) -> None:
        super().__init__(options)
        self._processes = f"{spool_folder(options.spool)}/processes"

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return a shell that starts the script on its standard input in its own session."""
        return ("sh", "-c", LAUNCH, "pilot", request.name, request.log)

    def submitted(self, stdout: str) -> str:
        """Parse pid and start time."""
        if not re.fullmatch(r"\d+\.\d+", stdout.strip()):
            raise CommandFault(f"the pilot did not start: {stdout[:200]!r}")
        return stdout.strip()

    def number(self, job: str) -> str:
        """Return the job itself: there are no arrays."""
        return job

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 -- one listing for all
        """Return a shell that lists every pilot started there in the last two weeks, and whether it lives."""
        each = f'job=$(cat "$n/pid" 2>/dev/null) || continue; pid=${{job%%.*}}; start={START}'
        show = '[ "$start" = "${job#*.}" ] && s=R || s=E; echo "$job|$s|$(cat "$n/exit" 2>/dev/null)|$n"'
        return (
            "sh",
            "-c",
            f"cd {self._processes} 2>/dev/null || exit 0; for n in *; do {each}; {show}; done",
        )

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse one line per pilot."""
        jobs = {}
        for line in stdout.splitlines():
            values = line.split("|", 3)
            if len(values) == 4:
                job, state, code, name = values
                ended = state != "R" or bool(code)
                exit_code = int(code) if code.isdecimal() else None
                reason = "" if not ended else f"exit status {code}" if code else "gone"
                status = "ended" if ended else "running"
                jobs[job] = BatchJob(name=name, state=status, reason=reason, exit_code=exit_code)  # type: ignore[arg-type]
        return jobs

    def capacity(self) -> tuple[str, ...]:
        """Return the command that prints the number of processors. Others may use some of them."""
        return ("nproc",)

    def slots(self, stdout: str) -> int | None:
        """Parse one number."""
        return int(stdout) if stdout.strip().isdecimal() else None


class Ssh(BatchElement):
    """The computing element kind ``ssh``: a machine without a batch system."""

    options, profile = SshOptions, PlainProfile
