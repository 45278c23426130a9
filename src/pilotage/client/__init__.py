"""The Python client: ``Client``, and ``AsyncClient`` with the same names.

    from pilotage.client import Client

    with Client() as client:
        task = client.submit(name="sums", command=["sh", "-c", "sha256sum /etc/hostname"])
        task.wait()
        print(task.state, task.outputs())

It needs the base installation only. Its imports are loaded on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._async.client import AsyncClient
    from ._async.records import AsyncJob, AsyncTask
    from ._sync.client import Client
    from ._sync.records import Job, Task
    from .errors import (
        BadAnswer,
        CallFailed,
        ClientError,
        Conflict,
        Fault,
        FetchFailed,
        Gone,
        NotAllowed,
        NotFound,
        NotPilotage,
        NotSignedIn,
        OtherVersion,
        Refused,
        ServerFault,
        StillUnderWay,
        TaskFailed,
        TooMany,
        Unreachable,
    )
    from .records import ExplainedRecord, Record, RemarkRecord, Table

_PLACES = {
    "AsyncClient": "_async.client",
    "AsyncJob": "_async.records",
    "AsyncTask": "_async.records",
    "Client": "_sync.client",
    "Job": "_sync.records",
    "ExplainedRecord": "records",
    "Record": "records",
    "RemarkRecord": "records",
    "Table": "records",
    "Task": "_sync.records",
}

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "AsyncTask",
    "BadAnswer",
    "CallFailed",
    "Client",
    "ClientError",
    "Conflict",
    "ExplainedRecord",
    "Fault",
    "FetchFailed",
    "Gone",
    "Job",
    "NotAllowed",
    "NotFound",
    "NotPilotage",
    "NotSignedIn",
    "OtherVersion",
    "Record",
    "Refused",
    "RemarkRecord",
    "ServerFault",
    "StillUnderWay",
    "Table",
    "Task",
    "TaskFailed",
    "TooMany",
    "Unreachable",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
