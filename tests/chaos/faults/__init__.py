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
from .fault import Fault, Nothing
from .pilots import AgentFrozen, AgentKilled, NodeFrozen, NodeLost
from .places import (
    BatchSystemWrong,
    DiskFull,
    Drained,
    FederationReloaded,
    SlurmKilled,
    StorageAway,
    StorageFrozen,
)
from .servers import (
    ClockJumped,
    DatabaseKilled,
    DatabaseRestarted,
    ReplicaPromoted,
    ServerEnded,
    ServerFrozen,
    ServerKilled,
    WorkerKilled,
)

__all__ = ["KINDS", "Fault"]


KINDS: dict[str, type[Fault]] = {
    "nothing": Nothing,
    "server killed": ServerKilled,
    "server frozen": ServerFrozen,
    "server ended": ServerEnded,
    "worker killed": WorkerKilled,
    "database killed": DatabaseKilled,
    "database restarted": DatabaseRestarted,
    "replica promoted": ReplicaPromoted,
    "pilot killed": AgentKilled,
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
    "disk full": DiskFull,
    "batch system wrong": BatchSystemWrong,
    "Slurm killed": SlurmKilled,
    "clock jumped": ClockJumped,
}
"""All faults by the name in reports."""
