"""The records of TES 1.1 as JSON Schema: names, types and requirements of the official OpenAPI document.

The document is ``openapi/task_execution_service.openapi.yaml`` of ga4gh/task-execution-schemas, 1.1.0,
with the records of GA4GH's service info 1.0.0 that it refers to.
"""

from typing import Any

import jsonschema

TEXT, NUMBER, WHOLE, TRUTH = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))
TEXTS = {"type": "array", "items": TEXT}
TEXT_BY_TEXT = {"type": "object", "additionalProperties": TEXT}
MOMENT = {"type": "string", "format": "date-time"}
ADDRESS = {"type": "string", "format": "uri"}
FILE_TYPE = {"enum": ["FILE", "DIRECTORY"]}

STATES = (
    *("UNKNOWN", "QUEUED", "INITIALIZING", "RUNNING", "PAUSED", "COMPLETE", "EXECUTOR_ERROR"),
    *("SYSTEM_ERROR", "CANCELED", "PREEMPTED", "CANCELING"),
)
VIEWS = ("MINIMAL", "BASIC", "FULL")
LIST_PARAMETERS = {"name_prefix", "state", "tag_key", "tag_value", "page_size", "page_token", "view"}
ROUTES = {
    ("get", "/service-info"): "ServiceInfo",
    ("get", "/tasks"): "TaskList",
    ("post", "/tasks"): "Created",
    ("get", "/tasks/{id}"): "Task",
    ("post", "/tasks/{id}:cancel"): "Cancelled",
}
"""Routes with the record of their answer; each answers with 200."""


def _record(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}


RECORDS: dict[str, dict[str, Any]] = {
    "Executor": _record(
        "command",
        "image",
        **dict.fromkeys(("image", "workdir", "stdin", "stdout", "stderr"), TEXT),
        command=TEXTS,
        env=TEXT_BY_TEXT,
        ignore_error=TRUTH,
    ),
    "ExecutorLog": _record(
        "exit_code", start_time=MOMENT, end_time=MOMENT, stdout=TEXT, stderr=TEXT, exit_code=WHOLE
    ),
    "Input": _record(
        "path", **dict.fromkeys(("name", "description", "url", "path", "content"), TEXT), type=FILE_TYPE
    ),
    "Output": _record(
        "path",
        "url",
        **dict.fromkeys(("name", "description", "url", "path", "path_prefix"), TEXT),
        type=FILE_TYPE,
    ),
    "OutputFileLog": _record("path", "size_bytes", "url", url=TEXT, path=TEXT, size_bytes=TEXT),
    "Resources": _record(
        cpu_cores=WHOLE,
        preemptible=TRUTH,
        ram_gb=NUMBER,
        disk_gb=NUMBER,
        zones=TEXTS,
        backend_parameters=TEXT_BY_TEXT,
        backend_parameters_strict=TRUTH,
    ),
    "TaskLog": _record(
        "logs",
        "outputs",
        logs=_list("ExecutorLog"),
        metadata=TEXT_BY_TEXT,
        start_time=MOMENT,
        end_time=MOMENT,
        outputs=_list("OutputFileLog"),
        system_logs=TEXTS,
    ),
    "Task": _record(
        # The standard requires executors, of which its minimal view has none.
        id=TEXT,
        state={"enum": list(STATES)},
        name=TEXT,
        description=TEXT,
        inputs=_list("Input"),
        outputs=_list("Output"),
        resources={"$ref": "#/$defs/Resources"},
        executors=_list("Executor"),
        volumes=TEXTS,
        tags=TEXT_BY_TEXT,
        logs=_list("TaskLog"),
        creation_time=MOMENT,
    ),
    "TaskList": _record("tasks", tasks=_list("Task"), next_page_token=TEXT),
    "Created": _record("id", id=TEXT),
    "Cancelled": _record(),
    "ServiceType": _record(
        "group", "artifact", "version", group=TEXT, artifact={"enum": ["tes"]}, version=TEXT
    ),
    "Organization": _record("name", "url", name=TEXT, url=ADDRESS),
    "ServiceInfo": _record(
        *("id", "name", "type", "organization", "version"),
        **dict.fromkeys(("id", "name", "description", "environment", "version"), TEXT),
        type={"$ref": "#/$defs/ServiceType"},
        organization={"$ref": "#/$defs/Organization"},
        contactUrl=ADDRESS,
        documentationUrl=ADDRESS,
        createdAt=MOMENT,
        updatedAt=MOMENT,
        storage=TEXTS,
        tesResources_backend_parameters=TEXTS,
    ),
}


def check(name: str, document: Any) -> None:
    """Assert that a document is such a record, and has no field that the standard lacks."""
    closed = {one: {**record, "additionalProperties": False} for one, record in RECORDS.items()}
    schema = {"$ref": f"#/$defs/{name}", "$defs": closed}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(document)


def check_whole(document: Any) -> None:
    """Assert the same of a task in its basic or full view, which has all that the standard requires."""
    check("Task", document)
    assert {"id", "state", "executors", "creation_time"} <= set(document)
