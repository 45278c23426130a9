"""A private Grid Engine of Debian's packages, with ports and directories of its own. It must run as root.

Its daemons listen on every address of the machine: it has no option against it.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import locked_port
from tests.waiting import wait_for

from .slurm import LONGEST, PLACES

NEEDED = ("sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf")
DEBIAN = Path("/var/lib/gridengine")
SPOOL = Path("/var/spool/gridengine")
SHARED = Path("/usr/share/gridengine")
ADMINISTRATOR = "sgeadmin"
LISTS = "load_scaling complex_values user_lists xuser_lists projects xprojects usage_scaling report_variables"
ENVIRONMENT = """\
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args /bin/true
stop_proc_args /bin/true
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


def lacking() -> str:
    """Say what this machine lacks to run a Grid Engine; empty where it has all."""
    path = f"{os.environ.get('PATH', '')}:{PLACES}"
    missing = [name for name in NEEDED if not shutil.which(name, path=path)]
    if missing or not DEBIAN.exists():
        return f"no {', '.join(missing) or DEBIAN}: `make test-sites` installs them"
    return "" if os.getuid() == 0 else "Grid Engine starts only as root"


@dataclass
class GridEngine:
    """One node of eight slots in the queue ``main.q``."""

    place: Path
    ports: tuple[int, int]

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for its commands."""
        return {
            **os.environ,
            "SGE_ROOT": str(self.place / "root"),
            "SGE_CELL": "default",
            "SGE_QMASTER_PORT": str(self.ports[0]),
            "SGE_EXECD_PORT": str(self.ports[1]),
            "PATH": f"{os.environ.get('PATH', '')}:{PLACES}",
        }

    def start(self) -> None:
        """Make a cluster, start its daemons, and wait until the node takes jobs."""
        self._make_cluster()
        self.call("sge_qmaster")
        wait_for(lambda: "localhost" in self.call("qconf", "-sh", check=False), "qmaster answers")
        self.call("qconf", "-as", "localhost", check=False)
        self._set("-Ae", f"hostname localhost\n{_none(LISTS)}")
        changes = {"min_uid": "0", "min_gid": "0", "execd_spool_dir": str(self.place / "spool/execd")}
        self._set("-Mconf", _changed(self.call("qconf", "-sconf"), changes), "global")
        self.call("sge_execd")
        main = {"qname": "main.q", "hostlist": "localhost", "pe_list": "smp", "slots": "8"}
        queue = _changed(self.call("qconf", "-sq"), {**main, "load_thresholds": "NONE"})
        self._set("-Ap", ENVIRONMENT)
        self._set("-Aq", queue)
        quick = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
        self._set("-Msconf", _changed(self.call("qconf", "-ssconf"), quick))
        wait_for(self._is_ready, "the node takes jobs")

    def _is_ready(self) -> bool:
        told = self.call("qstat", "-f", check=False)
        return "main.q" in told and " au" not in told

    def call(self, *command: str, check: bool = True, stdin: str = "") -> str:
        """Run one of its commands; returns what it printed."""
        return self._run(command, check, stdin)

    def clear(self) -> None:
        """End all jobs."""
        self.call("qdel", "-f", "-u", "*", check=False)
        wait_for(lambda: not self.call("qstat", "-u", "*", check=False).strip(), "the jobs end")

    def stop(self) -> None:
        """End the daemons and all that they started."""
        with contextlib.suppress(subprocess.SubprocessError, AssertionError):
            self.clear()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mine = process.name().startswith("sge_")
                if mine and process.environ().get("SGE_ROOT") == str(self.place / "root"):
                    process.kill()

    def _make_cluster(self) -> None:
        """Make root and spool. Debian makes its own cluster only where it was never installed before."""
        root, spool = self.place / "root", self.place / "spool"
        common = root / "default/common"
        subprocess.run(["cp", "-a", str(DEBIAN), str(root)], check=True)
        for folder in (common, spool / "qmaster/job_scripts", spool / "spooldb"):
            folder.mkdir(parents=True, exist_ok=True)
        bootstrap = (SHARED / "default-bootstrap").read_text().replace(str(SPOOL), str(spool))
        (common / "bootstrap").write_text(bootstrap)
        (common / "host_aliases").write_text(f"localhost {socket.gethostname().partition('.')[0]}\n")
        (common / "act_qmaster").write_text("localhost\n")
        self.call("chown", "-R", f"{ADMINISTRATOR}:", str(root), str(spool))
        initialise = (str(SHARED / "scripts/init_cluster"), str(root), "default", str(spool / "spooldb"))
        self.call("runuser", "-u", ADMINISTRATOR, "--", *initialise, ADMINISTRATOR)

    def _set(self, option: str, text: str, name: str = "settings") -> None:
        file = self.place / name
        file.write_text(text)
        self.call("qconf", option, str(file))

    def _run(self, command: Sequence[str], check: bool, stdin: str) -> str:
        done = subprocess.run(
            command,
            env=dict(self.environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr} {done.stdout}")
        return done.stdout


def _none(names: str) -> str:
    return "".join(f"{name} NONE\n" for name in names.split())


def _changed(text: str, changes: Mapping[str, str]) -> str:
    """A configuration in which some lines are other ones."""
    whole = text.replace("\\\n", " ")
    lines = [line for line in whole.splitlines() if line.partition(" ")[0] not in changes and line[:1] != "#"]
    return "\n".join([*lines, *(f"{name} {value}" for name, value in changes.items()), ""])


@contextlib.contextmanager
def grid_engine() -> Iterator[GridEngine]:
    """A Grid Engine that runs until the end of the block."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-gridengine-"))
    place.chmod(0o755)
    with locked_port() as qmaster, locked_port() as execd:
        bed = GridEngine(place, (qmaster, execd))
        try:
            bed.start()
            yield bed
        finally:
            bed.stop()
            shutil.rmtree(place, ignore_errors=True)
