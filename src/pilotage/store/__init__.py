"""Tables, migrations, snapshots and the one commit, on SQLite and PostgreSQL."""

from pilotage.store.audit.acts import Act, Description
from pilotage.store.audit.audit import AuditQuery
from pilotage.store.audit.chain import AuditCheck
from pilotage.store.commit.archive import ARCHIVE, Slice
from pilotage.store.commit.deletion import FileVolume
from pilotage.store.database.acts import acting, note_act, part_of_act
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
    NameTaken,
    NewerStore,
    NoFederation,
    NoticesLost,
    PersonClosed,
    StagesChanged,
    StoreError,
    StoreHeld,
    TooBroad,
    UnreadableTask,
    UnreleasedStore,
)
from pilotage.store.database.keyset import ListPage, by_time, cut, named_page, numbered
from pilotage.store.database.measurements import MeasuredKey
from pilotage.store.database.reach import SERVES_A_CALLER
from pilotage.store.files.datasets import DatasetVersion
from pilotage.store.files.outputs import OutputPage
from pilotage.store.files.table import OutputView, ReplicaView
from pilotage.store.history.event_log import Ends, LoggedEvent, TaskOwner
from pilotage.store.history.events import EventKind
from pilotage.store.history.history import EventView, Unknown
from pilotage.store.jobs.attempt_export import AttemptPage
from pilotage.store.jobs.daily_failures import DailyFailures, FailureHistory
from pilotage.store.jobs.failures import FailedGroup
from pilotage.store.jobs.lists import JobPage, JobSort, ListedJob, UseAtQueue
from pilotage.store.jobs.logs import StoredLog
from pilotage.store.jobs.table import JobDetails, JobView
from pilotage.store.jobs.use_report import MOST_ROWS, Use, UseQuery, UseReport
from pilotage.store.jobs.waiting import Waiting
from pilotage.store.jobs.work_quarters import WorkCounts, WorkNow, WorkOf, WorkQuarter, WorkSample
from pilotage.store.past import USE_KEPT, step_of
from pilotage.store.people.notification_settings import PersonNotify
from pilotage.store.people.notifications import NotificationView
from pilotage.store.people.sessions import LONGEST_BROWSER, BrowserSession, session_token
from pilotage.store.people.share_hours import ShareSample, ShareSpan
from pilotage.store.people.simulations import SimulationResult, StoredSimulation
from pilotage.store.people.tokens import PersonToken
from pilotage.store.pilots.table import EndedPilot
from pilotage.store.queues.conditions import QueueView, ShareUse, ShareView, share_uses
from pilotage.store.queues.federations import FederationFile, FederationVersion
from pilotage.store.servers.metrics import StoreCounts
from pilotage.store.servers.servers import ServerBeat
from pilotage.store.servers.set_aside import SetAsideRecord
from pilotage.store.store import Store
from pilotage.store.tasks.lists import TaskFilter, TaskPage, TaskSort
from pilotage.store.tasks.table import TaskDetails, TaskView
from pilotage.store.tasks.workflows import ReaderView, StageView, WorkflowView
from pilotage.store.worlds.parts import Pass

__all__ = [
    "ARCHIVE",
    "HINDRANCES",
    "LONGEST_BROWSER",
    "MOST_ROWS",
    "OUTAGE",
    "SERVES_A_CALLER",
    "USE_KEPT",
    "Act",
    "ArchivedElsewhere",
    "AttemptPage",
    "AuditCheck",
    "AuditQuery",
    "BadCursor",
    "BrowserSession",
    "DailyFailures",
    "DatasetTaken",
    "DatasetVersion",
    "Description",
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
    "FileVolume",
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
    "NameTaken",
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
    "ReaderView",
    "ReplicaView",
    "ServerBeat",
    "SetAsideRecord",
    "ShareSample",
    "ShareSpan",
    "ShareUse",
    "ShareView",
    "SimulationResult",
    "Slice",
    "StageView",
    "StagesChanged",
    "Store",
    "StoreCounts",
    "StoreError",
    "StoreHeld",
    "StoredLog",
    "StoredSimulation",
    "TaskDetails",
    "TaskFilter",
    "TaskOwner",
    "TaskPage",
    "TaskSort",
    "TaskView",
    "TooBroad",
    "Unknown",
    "UnreadableTask",
    "UnreleasedStore",
    "Use",
    "UseAtQueue",
    "UseQuery",
    "UseReport",
    "Waiting",
    "WorkCounts",
    "WorkNow",
    "WorkOf",
    "WorkQuarter",
    "WorkSample",
    "WorkflowView",
    "acting",
    "by_time",
    "concerns_records",
    "cut",
    "named_page",
    "note_act",
    "numbered",
    "outage",
    "part_of_act",
    "session_token",
    "share_uses",
    "step_of",
]
