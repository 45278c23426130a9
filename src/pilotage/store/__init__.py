"""Tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from pilotage.store.commit.archive import ARCHIVE, Slice
from pilotage.store.database.driver_errors import HINDRANCES, OUTAGE, concerns_records, outage
from pilotage.store.database.errors import (
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
from pilotage.store.database.measurements import MeasuredKey
from pilotage.store.database.reach import SERVES_A_CALLER
from pilotage.store.past import step_of
from pilotage.store.store import Store
from pilotage.store.tables.daily_failures import DailyFailures, FailureHistory
from pilotage.store.tables.events import EventKind
from pilotage.store.tables.federations import FederationFile, FederationVersion
from pilotage.store.tables.files import OutputView, ReplicaView
from pilotage.store.tables.history import EventView
from pilotage.store.tables.jobs import JobDetails, JobView
from pilotage.store.tables.logs import StoredLog
from pilotage.store.tables.notification_settings import PersonNotify
from pilotage.store.tables.servers import ServerBeat
from pilotage.store.tables.set_aside import SetAsideRecord
from pilotage.store.tables.share_hours import ShareSample, ShareSpan
from pilotage.store.tables.simulations import SimulationResult, StoredSimulation
from pilotage.store.tables.tasks import TaskDetails, TaskView
from pilotage.store.tables.tokens import PersonToken
from pilotage.store.views.ended_pilots import EndedPilot
from pilotage.store.views.event_log import Ends, LoggedEvent
from pilotage.store.views.job_failures import FailedGroup
from pilotage.store.views.job_lists import JobPage, ListedJob, UseAtQueue
from pilotage.store.views.job_orders import JobSort
from pilotage.store.views.keyset import ListPage, by_time, cut, named_page, numbered
from pilotage.store.views.metrics import StoreCounts
from pilotage.store.views.notifications import NotificationView
from pilotage.store.views.outputs import OutputPage
from pilotage.store.views.queues import QueueView, ShareUse, ShareView, share_uses
from pilotage.store.views.task_filters import TaskFilter
from pilotage.store.views.task_lists import TaskPage, TaskSort
from pilotage.store.worlds.parts import Pass
from pilotage.store.worlds.waiting import Waiting

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
