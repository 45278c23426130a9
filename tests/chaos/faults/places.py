"""Faults of sites, storages and batch systems, and what operators do to them."""

import signal

import psutil

from tests.chaos.batch import MODES
from tests.chaos.disks import AwayDisk
from tests.chaos.system import SITES

from .fault import Fault
from .signals import send


class StorageAway(Fault):
    """A storage cannot be opened, neither by servers nor by pilots."""

    holds = "transfers and jobs are tried again; nothing counts as lost"
    span = (1.0, 20.0)
    has_stand_in = False

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
    has_stand_in = False

    def start(self) -> bool:
        """Stop it, where there is one."""
        if not self.system.real.xrootd:
            return False
        self.frozen = send([psutil.Process(self.system.real.xrootd.pid)], signal.SIGSTOP)
        return True

    def stop(self) -> None:
        """Let it go on."""
        send(self.frozen, signal.SIGCONT)


class DiskFull(Fault):
    """No byte is free on the disk of a storage, or on that of the pilots' directories."""

    holds = "transfers and jobs are tried again; no half of a file counts as a whole"
    span = (1.0, 15.0)
    has_stand_in = False

    def start(self) -> bool:
        """Fill a disk."""
        if not self.system.disks:
            return False
        self.disk = self.drawn.choice(self.system.disks)
        self.disk.fill()
        return True

    def stop(self) -> None:
        """Give the room back."""
        self.disk.clear()


class BatchSystemWrong(Fault):
    """The batch system of one site is away, hangs or lies about its jobs."""

    holds = "other sites take the work; no slot is used twice"
    span = (1.0, 20.0)

    def start(self) -> bool:
        """Choose what is wrong."""
        self.system.batch.set(self.drawn.choice(MODES))
        return True

    def stop(self) -> None:
        """Answer rightly again."""
        self.system.batch.set("")


class SlurmKilled(Fault):
    """``kill -9`` of Slurm's controller, which forgets what it heard last, and starts again later."""

    holds = "other sites take the work; pilots of the cluster go on"
    span = (0.0, 20.0)

    def start(self) -> bool:
        """Kill it, where there is one that runs."""
        if not self.system.real.slurm or not self.system.slurm_turn.acquire(blocking=False):
            return False
        self.system.real.slurm.kill_controller()
        return True

    def stop(self) -> None:
        """Start it again."""
        assert self.system.real.slurm
        self.system.real.slurm.start_controller()
        self.system.slurm_turn.release()


class FederationReloaded(Fault):
    """Another version of the federation comes into force."""

    holds = "work goes on"
    span = (0.0, 0.1)

    def start(self) -> bool:
        """Put it in force."""
        self.system.reload()
        return True


class Drained(Fault):
    """Somebody drains or closes a site, a queue or a storage, and opens it again."""

    holds = "jobs that wait there move; others end"
    span = (1.0, 20.0)
    has_stand_in = False

    def start(self) -> bool:
        """Drain or close a place."""
        site = self.drawn.choice(SITES)
        self.path = self.drawn.choice((f"site/{site}", f"queue/{site}-queue", f"storage/{site}-disk"))
        body = {"mode": self.drawn.choice(("drain", "close")), "because": "a storm"}
        self.system.call("PUT", f"/restrictions/{self.path}", body)
        return True

    def stop(self) -> None:
        """Open it."""
        self.system.call("DELETE", f"/restrictions/{self.path}")
