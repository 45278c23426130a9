"""A batch system that can be away, hang and lie: PBS's stand-in commands behind a mode."""

from pathlib import Path

from tests.computing import standin

MODES = ("away", "hanging", "forgetful", "ending", "losing")
"""Away: each command fails; hanging: it does not end; forgetful: it knows no job; ending: it takes each job
for ended; losing: it submits, and says that it failed."""

_SCRIPT = """#!/bin/sh
case "$(cat {place}/mode)" in
away) echo "cannot connect to server" >&2; exit 1 ;;
hanging) exec sleep 20 ;;
forgetful) case {name} in qstat) echo '{{"Jobs": {{}}}}'; exit 0 ;; qselect) exit 0 ;; esac ;;
ending) case {name} in qstat)
  {real}/{name} "$@" | sed 's/"job_state": "R"/"job_state": "F", "Exit_status": 0/g'; exit 0 ;; esac ;;
losing) case {name} in qsub) flock -o {place}/lock {real}/{name} "$@" >/dev/null; exit 1 ;; esac ;;
esac
exec flock -o {place}/lock {real}/{name} "$@"
"""


class BatchSystem:
    """The commands in ``commands``, whose jobs are processes of this machine."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._mode = place / "mode"
        self.commands = place / "commands"
        self.commands.mkdir()
        self.set("")
        real = standin.install(place / "real")
        for name in ("qsub", "qstat", "qdel"):
            script = self.commands / name
            script.write_text(_SCRIPT.format(place=place, real=real, name=name))
            script.chmod(0o755)

    def set(self, mode: str) -> None:
        """Answer in a mode; empty: rightly."""
        self._mode.write_text(mode)
