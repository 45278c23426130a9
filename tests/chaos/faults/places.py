"""Faults of sites, storages and batch systems, and what operators do to them."""

import signal
from typing import ClassVar

import psutil

from tests.chaos.batch import SUBMISSION
from tests.chaos.disks import AwayDisk
from tests.chaos.system import SITES, SMALL_DISKS, System

from .fault import Fault
from .signals import send


class StorageAway(Fault):
    """A storage cannot be opened, neither by servers nor by pilots."""

    holds = "transfers and jobs are tried again; nothing counts as lost"
    span = (1.0, 20.0)

    def start(self) -> bool:
        """Take away a storage that is no disk of its own."""
        with self.system.victims:
            # What a server says of its files, it answers for: an XRootD server's disk stays.
            sites = ("west", "south") if self.system.real.xrootd else ("east", "west", "south")
            left = [site for site in sites if site not in self.system.away]
            if not left:
                return False
            self.site = self.drawn.choice(left)
            self.system.away.append(self.site)
        self.disk = AwayDisk(self.system.storages / self.site)
        self.disk.take_away()
        return True

    def stop(self) -> None:
        """Bring it back."""
        self.disk.bring_back()
        self.system.away.remove(self.site)


class StorageFrozen(Fault):
    """The XRootD server of a storage is stopped: it takes connections and answers nothing."""

    holds = "transfers and jobs are tried again; nothing counts as lost"
    span = (1.0, 20.0)
    site = "east"

    @classmethod
    def lacking(cls, system: System) -> str:
        """Say whether there is no such server."""
        return "" if system.real.xrootd else "no XRootD"

    def start(self) -> bool:
        """Stop it."""
        assert self.system.real.xrootd
        self.frozen = send([psutil.Process(self.system.real.xrootd.pid)], signal.SIGSTOP)
        return True

    def stop(self) -> None:
        """Let it go on."""
        send(self.frozen, signal.SIGCONT)


class NucleusFull(Fault):
    """No byte is free at the storage of the nucleus, where all outputs belong."""

    holds = "transfers are tried again; no half of a file counts as a whole"
    span = (1.0, 15.0)
    folder: ClassVar[str] = SMALL_DISKS[0]

    @classmethod
    def lacking(cls, system: System) -> str:
        """Say whether the folder is no disk of its own."""
        return "" if cls.folder in system.disks else "no right to mount a small disk"

    def start(self) -> bool:
        """Fill the disk."""
        self.system.disks[self.folder].fill()
        return True

    def stop(self) -> None:
        """Give the room back."""
        self.system.disks[self.folder].clear()


class PilotsDiskFull(NucleusFull):
    """No byte is free where pilots of the server's machine have their directories."""

    holds = "jobs are tried again; no half of a file counts as a whole"
    folder = SMALL_DISKS[1]

    def start(self) -> bool:
        """Fill the disk: no server of this machine can start a job."""
        self.away = range(len(self.system.houses))
        return super().start()


class BatchSystemWrong(Fault):
    """The batch system of one site is away, hangs or lies about its jobs."""

    holds = "other sites take the work; no slot is used twice"
    span = (1.0, 20.0)

    def start(self) -> bool:
        """Choose what is wrong, and where."""
        self.site = self.drawn.choice(sorted(self.system.batch))
        self.batch = self.system.batch[self.site]
        return self.batch.set(self.mode())

    def mode(self) -> str:
        """Return what is wrong."""
        return self.drawn.choice(self.batch.modes)

    def stop(self) -> None:
        """Answer rightly again."""
        self.batch.set("")


class SubmissionSlow(BatchSystemWrong):
    """Each submission to a batch system takes 45 s: longer than a server waits for another one's answer."""

    holds = "no pilot is submitted twice, and no healthy one is ended"
    span = (5.0, 1.5 * SUBMISSION)

    def mode(self) -> str:
        """Submit slowly."""
        return "slow"


class _OfTheLoginNode(Fault):
    """A fault of the way to the cluster behind SSH."""

    site = "west"

    @classmethod
    def lacking(cls, system: System) -> str:
        """Say whether there is no login node."""
        return "" if system.real.login else "no login node"


class TunnelCut(_OfTheLoginNode):
    """Every SSH connection to the cluster ends, with the tunnels and relays in it."""

    holds = "servers connect again, and pilots find their new relay"
    span = (0.0, 0.1)
    is_absence = True

    def start(self) -> bool:
        """End them, unless the login node is away."""
        if not self.system.login_turn.acquire(blocking=False):
            return False
        assert self.system.real.login
        self.system.real.login.cut()
        self.system.login_turn.release()
        return True


class LoginNodeAway(_OfTheLoginNode):
    """``kill -9`` of the SSH server with all connections; it starts again later."""

    holds = "other sites take the work; outputs of the cluster wait, and its pilots call again"
    span = (1.0, 40.0)
    is_absence = True

    def start(self) -> bool:
        """Kill it."""
        if not self.system.login_turn.acquire(blocking=False):
            return False
        assert self.system.real.login
        self.system.real.login.kill()
        return True

    def stop(self) -> None:
        """Start it again."""
        assert self.system.real.login
        self.system.real.login.start()
        self.system.login_turn.release()


class SlurmKilled(Fault):
    """``kill -9`` of Slurm's controller, which forgets what it heard last, and starts again later."""

    holds = "other sites take the work; pilots of the cluster continue"
    span = (0.0, 20.0)
    site = "west"

    @classmethod
    def lacking(cls, system: System) -> str:
        """Say whether there is no Slurm."""
        return "" if system.real.slurm else "no Slurm"

    def start(self) -> bool:
        """Kill it, if it runs."""
        if not self.system.slurm_turn.acquire(blocking=False):
            return False
        assert self.system.real.slurm
        self.system.real.slurm.kill_controller()
        return True

    def stop(self) -> None:
        """Start it again."""
        assert self.system.real.slurm
        self.system.real.slurm.start_controller()
        self.system.slurm_turn.release()


class FederationReloaded(Fault):
    """Another version of the federation comes into force."""

    holds = "work continues"
    span = (0.0, 0.1)

    def start(self) -> bool:
        """Put it in force."""
        self.system.reload()
        return True


class Drained(Fault):
    """Somebody drains or closes a site, a queue or a storage, and opens it again."""

    holds = "jobs that wait there move; others end"
    span = (1.0, 20.0)

    def start(self) -> bool:
        """Drain or close a place."""
        site = self.site = self.drawn.choice(SITES)
        self.path = self.drawn.choice((f"site/{site}", f"queue/{site}-queue", f"storage/{site}-disk"))
        body = {"mode": self.drawn.choice(("drain", "close")), "because": "a storm"}
        self.system.call("PUT", f"/restrictions/{self.path}", body)
        return True

    def stop(self) -> None:
        """Open it."""
        self.system.call("DELETE", f"/restrictions/{self.path}")
