"""Tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from .commit.archive import ARCHIVE, Slice
from .database.driver_errors import HINDRANCES, OUTAGE, concerns_records, outage
from .database.errors import (
    ArchivedElsewhere,
    BadCursor,
    DatasetTaken,
    FederationChanged,
    FederationRenamed,
    FileConflict,
    IllegalColumn,
    IllegalTransition,
    LeaseLost,
    NewerStore,
    NoFederation,
    NoticesLost,
    PersonClosed,
    StoreError,
    StoreHeld,
    TooBroad,
    UnreadableTask,
    UnreleasedStore,
)
from .database.measurements import MeasuredKey
from .database.reach import SERVES_A_CALLER
from .past import step_of
from .store import Store
from .tables.daily_failures import DailyFailures, FailureHistory
from .tables.events import EventKind
from .tables.federations import FederationFile, FederationVersion
from .tables.files import OutputView, ReplicaView
from .tables.history import EventView
from .tables.jobs import JobDetails, JobView
from .tables.logs import StoredLog
from .tables.notification_settings import PersonNotify
from .tables.servers import ServerBeat
from .tables.set_aside import SetAsideRecord
from .tables.share_hours import ShareSample, ShareSpan
from .tables.simulations import SimulationResult, StoredSimulation
from .tables.tasks import TaskDetails, TaskView
from .tables.tokens import PersonToken
from .views.ended_pilots import EndedPilot
from .views.event_log import Ends, LoggedEvent
from .views.job_failures import FailedGroup
from .views.job_lists import JobPage, ListedJob, UseAtQueue
from .views.job_orders import JobSort
from .views.keyset import ListPage, by_time, cut, named_page, numbered
from .views.metrics import StoreCounts
from .views.notifications import NotificationView
from .views.outputs import OutputPage
from .views.queues import QueueView, ShareUse, ShareView, share_uses
from .views.task_filters import TaskFilter
from .views.task_lists import TaskPage, TaskSort
from .worlds.parts import Pass
from .worlds.waiting import Waiting

__all__ = [
    "ARCHIVE",
    "HINDRANCES",
    "OUTAGE",
    "SERVES_A_CALLER",
    "ArchivedElsewhere",
    "BadCursor",
    "DailyFailures",
    "DatasetTaken",
    "EndedPilot",
    "Ends",
    "EventKind",
    "EventView",
    "FailedGroup",
    "FailureHistory",
    "FederationChanged",
    "FederationFile",
    "FederationRenamed",
    "FederationVersion",
    "FileConflict",
    "IllegalColumn",
    "IllegalTransition",
    "JobDetails",
    "JobPage",
    "JobSort",
    "JobView",
    "LeaseLost",
    "ListPage",
    "ListedJob",
    "LoggedEvent",
    "MeasuredKey",
    "NewerStore",
    "NoFederation",
    "NoticesLost",
    "NotificationView",
    "OutputPage",
    "OutputView",
    "Pass",
    "PersonClosed",
    "PersonNotify",
    "PersonToken",
    "QueueView",
    "ReplicaView",
    "ServerBeat",
    "SetAsideRecord",
    "ShareSample",
    "ShareSpan",
    "ShareUse",
    "ShareView",
    "SimulationResult",
    "Slice",
    "Store",
    "StoreCounts",
    "StoreError",
    "StoreHeld",
    "StoredLog",
    "StoredSimulation",
    "TaskDetails",
    "TaskFilter",
    "TaskPage",
    "TaskSort",
    "TaskView",
    "TooBroad",
    "UnreadableTask",
    "UnreleasedStore",
    "UseAtQueue",
    "Waiting",
    "by_time",
    "concerns_records",
    "cut",
    "named_page",
    "numbered",
    "outage",
    "share_uses",
    "step_of",
]
