"""The records of TES 1.1 in requests and answers. Clients may send fields that these do not have."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from pilotage.model.values.types import FINITE, Cores
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.tes.states import TesState

View = Literal["MINIMAL", "BASIC", "FULL"]
FileType = Literal["FILE", "DIRECTORY"]

MOST_EXECUTORS = 100
MOST_FILES = 1000
MOST_WORDS = 10_000
MOST_TAGS = 19
"""Most tags: each is a label of the task, which has one more."""

Path = Annotated[str, Field(min_length=1, max_length=1000)]
Url = Annotated[str, Field(max_length=4000)]
Note = Annotated[str, Field(max_length=10_000)]
Image = Annotated[str, Field(min_length=1, max_length=1000)]
Word = Annotated[str, Field(max_length=1000)]
Gigabytes = Annotated[float, Field(ge=0, le=1e6), FINITE]


class TesRecord(RequestBody, extra="ignore"):
    """A record in a request. A field with ``null`` counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: item for name, item in value.items() if item is not None}


class TesExecutor(TesRecord):
    """A command to run, one after the other, and its surroundings."""

    image: Annotated[Image, Field(description="container image, the same for all executors of a task")]
    command: Annotated[
        list[str], Field(min_length=1, max_length=MOST_WORDS, description="the program and its arguments")
    ]
    workdir: Annotated[Path | None, Field(description="folder to run in; none: the job's directory")] = None
    stdin: Annotated[Path | None, Field(description="file on its standard input; none: nothing")] = None
    stdout: Annotated[Path | None, Field(description="file that gets its standard output")] = None
    stderr: Annotated[Path | None, Field(description="file that gets its standard error")] = None
    env: Annotated[
        dict[str, str], Field(max_length=MOST_FILES, description="variables", default_factory=dict)
    ]
    ignore_error: Annotated[bool, Field(description="whether the next one runs although it failed")] = False


class TesInput(TesRecord):
    """A file or folder that executors read."""

    name: Annotated[Note | None, Field(description="the client's name for it")] = None
    description: Annotated[Note | None, Field(description="the client's words on it")] = None
    url: Annotated[Url | None, Field(description="where it is, below a storage of the federation")] = None
    path: Annotated[Path, Field(description="where executors see it")]
    type: Annotated[FileType, Field(description="a file or a folder")] = "FILE"
    content: Annotated[str | None, Field(description="its text, instead of a URL")] = None


class TesOutput(TesRecord):
    """A file or folder that executors make, or a pattern of files."""

    name: Annotated[Note | None, Field(description="the client's name for it")] = None
    description: Annotated[Note | None, Field(description="the client's words on it")] = None
    url: Annotated[Url, Field(description="where it goes, below a storage of the federation")]
    path: Annotated[Path, Field(description="where executors make it; it may have wildcards")]
    path_prefix: Annotated[Path | None, Field(description="what a wildcard's paths lose at their URL")] = None
    type: Annotated[FileType, Field(description="a file or a folder")] = "FILE"


class TesResources(TesRecord):
    """What a task needs."""

    cpu_cores: Annotated[Cores | None, Field(description="processor cores")] = None
    preemptible: Annotated[bool | None, Field(description="accepted; it changes nothing")] = None
    ram_gb: Annotated[Gigabytes | None, Field(description="memory in GB")] = None
    disk_gb: Annotated[Gigabytes | None, Field(description="room of the directory in GB")] = None
    zones: Annotated[
        list[Word], Field(max_length=MOST_FILES, description="sites or queues, by name", default_factory=list)
    ]
    backend_parameters: Annotated[
        dict[str, Word],
        Field(
            max_length=MOST_FILES,
            description="further fields of Pilotage's tasks, by key",
            default_factory=dict,
        ),
    ]
    backend_parameters_strict: Annotated[
        bool, Field(description="whether keys that Pilotage does not have are refused")
    ] = False


class TesTask(TesRecord):
    """A task. Its state, logs, number and time are Pilotage's, and ignored in requests."""

    name: Annotated[Word | None, Field(description="the client's name for it")] = None
    description: Annotated[Note | None, Field(description="the client's words on it")] = None
    inputs: Annotated[
        list[TesInput], Field(max_length=MOST_FILES, description="what executors read", default_factory=list)
    ]
    outputs: Annotated[
        list[TesOutput], Field(max_length=MOST_FILES, description="what executors make", default_factory=list)
    ]
    resources: Annotated[TesResources | None, Field(description="what it needs; none: the queue's")] = None
    executors: Annotated[
        list[TesExecutor], Field(min_length=1, max_length=MOST_EXECUTORS, description="what runs, in order")
    ]
    volumes: Annotated[
        list[Path],
        Field(max_length=MOST_FILES, description="folders that executors share", default_factory=list),
    ]
    tags: Annotated[
        dict[str, str],
        Field(
            max_length=MOST_TAGS,
            description="labels; `idempotency_key` names the request",
            default_factory=dict,
        ),
    ]


class TesExecutorLog(BaseModel):
    """What an executor that has ended did."""

    start_time: Annotated[str | None, Field(description="when it began, in UTC")] = None
    end_time: Annotated[str | None, Field(description="when it ended, in UTC")] = None
    stdout: Annotated[str | None, Field(description="the end of its standard output")] = None
    stderr: Annotated[str | None, Field(description="the end of its standard error")] = None
    exit_code: Annotated[int, Field(description="its exit code")]


class TesOutputFileLog(BaseModel):
    """A file that a task made."""

    url: Annotated[str, Field(description="where it is")]
    path: Annotated[str, Field(description="where executors made it")]
    size_bytes: Annotated[str, Field(description="its bytes, as text")]


class TesTaskLog(BaseModel):
    """What the last attempt of a task did."""

    logs: Annotated[list[TesExecutorLog], Field(description="of each executor that has ended")]
    metadata: Annotated[dict[str, str], Field(description="where it ran", default_factory=dict)]
    start_time: Annotated[str | None, Field(description="when it began, in UTC")] = None
    end_time: Annotated[str | None, Field(description="when it ended, in UTC")] = None
    outputs: Annotated[list[TesOutputFileLog], Field(description="the files that it made")]
    system_logs: Annotated[list[str] | None, Field(description="what Pilotage has to say of it")] = None


class ShownTesTask(TesTask):
    """A task with its state. A minimal view has its number and state alone."""

    id: Annotated[str, Field(description="its number, as text")]
    state: Annotated[TesState, Field(description="its state")]
    executors: Annotated[list[TesExecutor], Field(description="what runs, in order", default_factory=list)]
    logs: Annotated[
        list[TesTaskLog],
        Field(description="of its last attempt; empty: none has begun", default_factory=list),
    ]
    creation_time: Annotated[str | None, Field(description="when it was submitted, in UTC")] = None


class TesTasks(BaseModel):
    """A page of tasks, newest first. It may have fewer than were asked for, and still another may follow."""

    tasks: Annotated[list[ShownTesTask], Field(description="tasks, newest first")]
    next_page_token: Annotated[
        str | None, Field(description="the `page_token` of the page that follows; none: this is the last")
    ] = None


class TesCreated(BaseModel):
    """An accepted task."""

    id: Annotated[str, Field(description="its number, as text")]


class TesCancelled(BaseModel):
    """A cancelled task. There is nothing to say of it."""


class TesServiceType(BaseModel):
    """The standard that the service follows."""

    group: Annotated[str, Field(description="whose standard it is")]
    artifact: Annotated[Literal["tes"], Field(description="the standard")]
    version: Annotated[str, Field(description="its version")]


class TesOrganization(BaseModel):
    """Who runs the service."""

    name: Annotated[str, Field(description="the federation")]
    url: Annotated[str, Field(description="where its page is")]


class TesServiceInfo(BaseModel):
    """The service, and what it offers."""

    id: Annotated[str, Field(description="its name among services")]
    name: Annotated[str, Field(description="its name for people")]
    type: Annotated[TesServiceType, Field(description="the standard that it follows")]
    organization: Annotated[TesOrganization, Field(description="who runs it")]
    version: Annotated[str, Field(description="of Pilotage")]
    storage: Annotated[list[str], Field(description="URLs below which inputs may be")]
    tesResources_backend_parameters: Annotated[  # noqa: N815 (the standard's name)
        list[str], Field(description="keys of `backend_parameters` that have an effect")
    ]
