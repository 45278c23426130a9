"""Tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from .archive import Slice
from .driver_errors import concerns_records
from .errors import (
    ArchivedElsewhere,
    DatasetTaken,
    FederationRenamed,
    FileConflict,
    IllegalColumn,
    IllegalTransition,
    NewerStore,
    NoFederation,
    NoticesLost,
    StoreError,
    TooBroad,
)
from .federations import FederationFile
from .files import OutputView, ReplicaView
from .history import EventView
from .jobs import JobDetails, JobView
from .logs import StoredLog
from .queues import QueueView, ShareView
from .set_aside import SetAsideRecord
from .store import Store
from .tasks import TaskDetails, TaskView
from .tokens import PersonToken
from .waiting import Waiting

__all__ = [
    "ArchivedElsewhere",
    "DatasetTaken",
    "EventView",
    "FederationFile",
    "FederationRenamed",
    "FileConflict",
    "IllegalColumn",
    "IllegalTransition",
    "JobDetails",
    "JobView",
    "NewerStore",
    "NoFederation",
    "NoticesLost",
    "OutputView",
    "PersonToken",
    "QueueView",
    "ReplicaView",
    "SetAsideRecord",
    "ShareView",
    "Slice",
    "Store",
    "StoreError",
    "StoredLog",
    "TaskDetails",
    "TaskView",
    "TooBroad",
    "Waiting",
    "concerns_records",
]
