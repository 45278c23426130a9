"""The faults of a storm. Each is a class: how it starts, how it stops, and what must hold nevertheless."""

from .connections import (
    DatabaseCut,
    DatabaseSlowed,
    DatabaseUnheard,
    PilotsAlone,
    PilotsCut,
    PilotsRepeated,
    PilotsSlowed,
    PilotsUnheard,
)
from .databases import DatabaseKilled, DatabaseRestarted, ReplicaPromoted
from .fault import Fault, Nothing
from .pilots import AgentFrozen, AgentKilled, MemoryExceeded, NodeFrozen, NodeLost
from .places import (
    BatchSystemWrong,
    Drained,
    FederationReloaded,
    LoginNodeAway,
    NucleusFull,
    PilotsDiskFull,
    SlurmKilled,
    StorageAway,
    StorageFrozen,
    SubmissionSlow,
    TunnelCut,
)
from .servers import (
    ClockJumped,
    LidClosed,
    LookedAt,
    ServerEnded,
    ServerFrozen,
    ServerKilled,
    ServersStopped,
    StoreRestored,
    WorkerKilled,
)

__all__ = ["KINDS", "Fault"]


KINDS: dict[str, type[Fault]] = {
    "nothing": Nothing,
    "server killed": ServerKilled,
    "server frozen": ServerFrozen,
    "server ended": ServerEnded,
    "servers stopped": ServersStopped,
    "lid closed": LidClosed,
    "store restored": StoreRestored,
    "looked at": LookedAt,
    "worker killed": WorkerKilled,
    "database killed": DatabaseKilled,
    "database restarted": DatabaseRestarted,
    "replica promoted": ReplicaPromoted,
    "pilot killed": AgentKilled,
    "pilot out of memory": MemoryExceeded,
    "pilot frozen": AgentFrozen,
    "node lost": NodeLost,
    "node frozen": NodeFrozen,
    "federation reloaded": FederationReloaded,
    "place drained": Drained,
    "pilots cut": PilotsCut,
    "pilots slowed": PilotsSlowed,
    "pilots half-open": PilotsUnheard,
    "pilots' calls repeated": PilotsRepeated,
    "pilots cut off": PilotsAlone,
    "database cut": DatabaseCut,
    "database slowed": DatabaseSlowed,
    "database half-open": DatabaseUnheard,
    "storage away": StorageAway,
    "storage frozen": StorageFrozen,
    "nucleus full": NucleusFull,
    "pilots' disk full": PilotsDiskFull,
    "batch system wrong": BatchSystemWrong,
    "submission slow": SubmissionSlow,
    "Slurm killed": SlurmKilled,
    "tunnel cut": TunnelCut,
    "login node away": LoginNodeAway,
    "clock jumped": ClockJumped,
}
"""All faults by the name in reports."""
