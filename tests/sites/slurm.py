"""A private Slurm: its own munge, ports and directory, all daemons on loopback, nothing left behind."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import locked_port
from tests.waiting import PATIENCE, wait_for

NEEDED = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
PRETENDED_GPUS = ("/dev/null", "/dev/zero")
"""Files that Slurm takes for the devices of GPUs."""
LONGEST = 120.0
"""Seconds that a command may take on a very busy machine."""


def lacking() -> str:
    """Say what this machine lacks to run a Slurm; empty where it has all."""
    path = f"{os.environ.get('PATH', '')}:{PLACES}"
    missing = [name for name in NEEDED if not shutil.which(name, path=path)]
    return f"no {', '.join(missing)}: `make test-sites` installs them" if missing else ""


def has_tokens() -> bool:
    """Tell whether this Slurm has the plugin of tokens, which its REST service needs."""
    return any(Path("/usr/lib").glob("*/slurm-wlm/auth_jwt.so"))


CONFIGURATION = """\
ClusterName=bed
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket
{tokens}StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SlurmdParameters=config_overrides
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=50000,batch_sched_delay=0,sched_interval=1
SchedulerType=sched/builtin
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
KillWait={kill_wait}
MinJobAge={min_job_age}
MaxArraySize=201
InactiveLimit=0
MessageTimeout=20
OverTimeLimit=0
JobCompType=jobcomp/filetxt
JobCompLoc={place}/jobcomp.txt
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=2-00:00:00 DefaultTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes={host} MaxTime=60 State=UP PriorityTier=10
"""


@dataclass
class Slurm:
    """One node of pretended slots and GPUs, two partitions; jobs of ``urgent`` preempt those of ``main``."""

    place: Path
    ports: tuple[int, int]
    slots: int = 16
    memory: int = 64_000
    min_job_age: int = 300
    kill_wait: int = 3
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for its commands."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return {
            **kept,
            "SLURM_CONF": str(self.place / "slurm.conf"),
            "PATH": f"{kept.get('PATH', '')}:{PLACES}",
        }

    def start(self) -> None:
        """Start all daemons, and wait until the node takes jobs."""
        for name in ("munge", "state", "spool"):
            (self.place / name).mkdir(exist_ok=True)
        (self.place / "munge").chmod(0o755)
        (self.place / "slurm.conf").write_text(
            CONFIGURATION.format(
                place=self.place,
                host=socket.gethostname().partition(".")[0],
                user=user_name(),
                slots=self.slots,
                memory=self.memory,
                min_job_age=self.min_job_age,
                kill_wait=self.kill_wait,
                tokens=self._tokens(),
                controller_port=self.ports[0],
                node_port=self.ports[1],
            )
        )
        (self.place / "gres.conf").write_text("".join(f"Name=gpu File={file}\n" for file in PRETENDED_GPUS))
        munge = self.place / "munge"
        self._run(["mungekey", "--create", f"--keyfile={munge}/key"])
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={munge}/socket",
            f"--key-file={munge}/key",
            f"--pid-file={munge}/pid",
            f"--seed-file={munge}/seed",
            f"--log-file={munge}/log",
        )
        wait_for((munge / "socket").exists, "munge answers")
        self.start_controller()
        self._start("slurmd", "-D")
        self.until_ready()

    def _tokens(self) -> str:
        """Settings for tokens, with a key; none where this Slurm does not have them."""
        if not has_tokens():
            return ""
        key = self.place / "jwt.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"

    def start_controller(self) -> None:
        """Start slurmctld, or start it again."""
        self._start("slurmctld", "-D")

    def stop_controller(self) -> None:
        """End slurmctld in good order: it keeps what it knows."""
        self.daemons["slurmctld"].send_signal(signal.SIGTERM)
        self.daemons["slurmctld"].wait(PATIENCE)

    def kill_controller(self) -> None:
        """``kill -9`` slurmctld, which forgets what it was told a moment ago."""
        self.daemons["slurmctld"].kill()
        self.daemons["slurmctld"].wait()

    def until_ready(self) -> None:
        """Wait until the node takes jobs."""
        ready = {"idle", "mixed", "allocated"}
        wait_for(
            lambda: ready & set(self.call("sinfo", "-h", "-o", "%T", check=False).split()), "Slurm is ready"
        )

    def resume(self) -> None:
        """Let nodes that Slurm drained or gave up take jobs again, as an operator would."""
        self.call("scontrol", "update", "nodename=ALL", "state=resume", check=False)

    def states(self) -> str:
        """Return what Slurm says of its nodes and jobs."""
        nodes = self.call("sinfo", "-h", "-o", "node %n %T %E", check=False)
        return nodes + self.call("squeue", "-h", "-o", "job %i %T %r", check=False)

    def call(self, *command: str, check: bool = True, stdin: str = "") -> str:
        """Run one of its commands; returns what it printed."""
        return self._run(command, check=check, stdin=stdin)

    def clear(self) -> None:
        """Cancel all jobs, and wait for their end."""
        self._run(["scancel", "--user", user_name()], check=False)
        wait_for(lambda: not self.call("squeue", "-h", check=False), "the jobs end")

    def stop(self) -> None:
        """Cancel all jobs, and end the daemons."""
        with contextlib.suppress(subprocess.SubprocessError, AssertionError):
            self.clear()
        for name in ("slurmd", "slurmctld", "munged"):
            daemon = self.daemons.get(name)
            if daemon is None:
                continue
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def words(self) -> str:
        """The end of every daemon's log."""
        logs = sorted(self.place.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def _start(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=self.environment["PATH"])
        assert program
        with (self.place / f"{name}.out.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                [program, *arguments],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _run(self, command: Sequence[str], *, check: bool = True, stdin: str = "") -> str:
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
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout


@contextlib.contextmanager
def slurm(slots: int = 16, min_job_age: int = 300, kill_wait: int = 3) -> Iterator[Slurm]:
    """A Slurm that runs until the end of the block. After ``kill_wait`` s it kills what it asked to end."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-slurm-"))
    place.chmod(0o755)
    with locked_port() as controller, locked_port() as node:
        yield from _started(
            Slurm(place, (controller, node), slots, min_job_age=min_job_age, kill_wait=kill_wait)
        )


def _started(bed: Slurm) -> Iterator[Slurm]:
    try:
        bed.start()
        yield bed
    except BaseException:
        print(bed.words())
        raise
    finally:
        bed.stop()
        shutil.rmtree(bed.place, ignore_errors=True)


def user_name() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name
