"""Everything that the API offers to people has a method of the client, with all of its parameters."""

import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hatch_build import PACKAGE, write_client

from pilotage.client import AsyncClient, BadAnswer, Client, ClientError
from pilotage.client._sync import api
from pilotage.client.answers import check
from pilotage.client.shapes import PAGE
from pilotage.server.api.edge.dependencies import PREFIX, TES_PREFIX
from pilotage.settings import Settings
from tests.api.conftest import openapi
from tests.described_answers import ANSWERS, choices, sample

BUILT_ON_OTHERS = {
    *("as_completed", "changes", "close", "download", "each", "ended_jobs", "events"),
    *("executor", "fetch", "follow", "map", "subject", "wait", "with_versions"),
    *("compare_outputs", "rerun", "rerun_document"),
}
"""Methods that make no request of their own."""

SUBJECTS = (12, "job:1", "pilot:1", "transfer:1", "queue:q", "workflow:1")

SAMPLES: Mapping[str, Any] = {
    "bool": True,
    "int": 7,
    "float": 3.0,
    "str": "x",
    "Sequence[str]": ["a=b"],
    "Sequence[int]": [1],
    "Iterable[tuple[int, int]]": [(1, 2)],
    "Sequence[Mapping[str, Any]]": [{"name": "a"}],
    "Mapping[str, Any]": {"ram": 1},
    "str | pathlib.Path": __file__,
    "Callable[[int], object]": lambda _: None,
}
"""A value of each kind of parameter."""


Shapes = list[tuple[str, Any]]
"""What the client reads of the answer to an operation."""


KINDS: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


class Recording:
    """A connection that answers as the server does. It records addresses, parameters and fields of bodies."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.operation = ""

    def send(self, method: str, template: str, values: object = None, **options: Any) -> Any:
        fields = set(options.get("query") or {})
        if isinstance(options.get("body"), dict):
            fields |= set(options["body"])
        self.requests[method, template] |= fields | ({"idempotency-key"} if options.get("key") else set())
        self.operation = f"{method} {template}"
        return sample(ANSWERS[self.operation]) if self.operation in ANSWERS else None

    def with_versions(self, error: BadAnswer) -> BadAnswer:
        """Return the error as it is."""
        return error

    def upload(self, template: str, query: Any, *_: Any) -> Any:
        """Read nothing of the file."""
        return self.send("PUT", template, query=query)

    @contextmanager
    def content(self, template: str, offset: int = 0, query: Any = None, **_: Any) -> Iterator[Any]:
        self.requests["GET", template] |= set(query or {}) | ({"Range"} if offset else set())
        yield self

    def iter_bytes(self, size: int) -> Iterator[bytes]:
        """Yield nothing."""
        return iter(())


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[tuple[str, str], set[str]], Shapes]:
    """The requests of all methods: of each with all its parameters, and with none but those it needs."""
    shapes: Shapes = []
    client = Client(settings=Settings.read(token="x"))
    client.close()
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, method in inspect.getmembers(client, inspect.ismethod):
        if name.startswith("_") or name in BUILT_ON_OTHERS:
            continue
        recording = Recording()
        client._connection = recording  # type: ignore[assignment]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "check", partial(_record_shape, recording, shapes))
            for subject, is_full in product(SUBJECTS, (True, False)):
                _call(method, subject, is_full)
        assert recording.requests, f"{name} makes no request: add it to BUILT_ON_OTHERS"
        for call, fields in recording.requests.items():
            found[call] |= fields
    return found, shapes


def _record_shape(recording: Recording, shapes: Shapes, answer: Any, shape: Any) -> Any:
    shapes.append((recording.operation, shape))
    return check(answer, shape)


def _call(method: Any, subject: object, is_full: bool) -> None:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for one in inspect.signature(method).parameters.values():
        is_needed = one.default is inspect.Parameter.empty
        if one.kind is inspect.Parameter.VAR_KEYWORD or not (is_full or is_needed):
            continue
        value = _sample(one, subject)
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[one.name] = value
    try:
        answer = method(*positional, **named)
        if hasattr(answer, "__enter__"):
            with answer:
                pass
    except ClientError:
        return  # not for such a subject


def _sample(one: inspect.Parameter, subject: object) -> Any:
    kind = str(
        one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
    )
    if "RequestSubject" in kind:
        return subject
    kind = kind.replace("collections.abc.", "").replace("typing.", "")
    for name in sorted(SAMPLES, key=len, reverse=True):
        if name in kind:
            return SAMPLES[name]
    raise AssertionError(f"no sample of {one.name}: {kind}")


def offered() -> dict[tuple[str, str], set[str]]:
    """The operations of the API for people, with the names of their parameters and their bodies' fields."""
    document = openapi()
    found = {}
    for path, operations in document["paths"].items():
        short = path.removeprefix(PREFIX)
        # Pilots and users of TES have programs of their own; /health is another name of /health/live.
        if short.startswith(("/pilot/", TES_PREFIX)) or short == "/health":
            continue
        for method, operation in operations.items():
            names = {one["name"] for one in operation.get("parameters", ()) if one["in"] != "path"}
            found[method.upper(), short] = names | _fields(document, operation)
    return found


def _fields(document: Any, operation: Any) -> set[str]:
    if operation["operationId"].startswith("put_federation"):
        return set()  # the body is the federation itself
    bodies = operation.get("requestBody", {}).get("content", {}).values()
    schemas = [one for body in bodies for one in (body["schema"], *body["schema"].get("anyOf", ()))]
    names = {one["$ref"].rpartition("/")[2] for one in schemas if "$ref" in one}
    return {field for name in names for field in document["components"]["schemas"][name]["properties"]}


@pytest.mark.slow
def test_every_operation_has_a_method_with_all_its_parameters(
    recorded: tuple[dict[tuple[str, str], set[str]], Shapes],
) -> None:
    (made, _), wanted = recorded, offered()
    assert set(wanted) - set(made) == set(), "give pilotage/client/_async a method for each of these"
    assert set(made) - set(wanted) == set(), "the server has no such operation"
    missing = {call: fields - made[call] for call, fields in wanted.items() if fields - made[call]}
    assert missing == {}, "methods in pilotage/client/_async lack these parameters"


@pytest.mark.slow
def test_the_server_describes_all_that_the_client_reads(
    recorded: tuple[dict[tuple[str, str], set[str]], Shapes],
) -> None:
    fields: dict[tuple[int, str], str] = {}
    described: set[tuple[int, str]] = set()

    def fits(shape: Any, form: Any) -> bool:
        match shape:
            case tuple():
                return any(fits(choice, form) for choice in shape)
            case list():
                items = form.get("prefixItems", [form.get("items", {})])
                return form.get("type") == "array" and all(fit(shape[0], item) for item in items)
            case dict() if str in shape:
                return form.get("type") == "object" and fit(shape[str], form["additionalProperties"])
            case dict():
                fields.update({(id(shape), field): f"{operation}: {field}" for field in shape.keys() - PAGE})
                inside = shape.keys() & form.get("properties", {}).keys()
                described.update((id(shape), field) for field in inside)
                return form.get("type") == "object" and all(
                    fit(shape[field], form["properties"][field]) for field in inside
                )
        kind = KINDS.get(form.get("type"), object)
        return kind is shape or (shape is float and kind is int)

    def fit(shape: Any, schema: Any) -> bool:
        return all(fits(shape, form) for form in choices(schema))

    _, shapes = recorded
    for operation, shape in shapes:
        if operation in ANSWERS:
            assert fit(shape, ANSWERS[operation]), operation
    assert {fields[key] for key in fields.keys() - described} == set()


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, str]:
        members = inspect.getmembers(kind, inspect.isfunction)
        return {name: str(inspect.signature(one)) for name, one in members if not name.startswith("_")}

    asynchronous = {name: text.replace("Async", "") for name, text in public(AsyncClient).items()}
    assert set(asynchronous) == set(public(Client))


def test_the_synchronous_client_is_made_from_the_asynchronous_one(tmp_path: Path) -> None:
    write_client(tmp_path)
    assert _texts(PACKAGE / "client" / "_sync") == _texts(tmp_path), "run `make`"


def _texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("*.py")}
