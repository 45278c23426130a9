"""Every number of every document that can be sent is finite and bounded, where its field is declared."""

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument
from pilotage.federation.task_checks import task_faults
from pilotage.flow.calls.work.what_if import Changes, changed
from pilotage.model.documents.serialization import json_schema, to_document
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import parsed
from pilotage.model.records.federation import Federation, Queue, Site
from pilotage.model.records.requirements import CPU_SEGMENTS, LARGEST_WORK, _rounded_up
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.classad import ClassAdError
from pilotage.model.values.phrases import moment
from pilotage.server.api.app import ROUTERS
from pilotage.simulation.scenario import Scenario
from pilotage.testing import task, world
from pilotage.testing.worlds import federation, queue

STRANGE = (5e-324, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), 10**30, -(10**30), True)
"""No number anywhere may be one of these."""


def _parameters() -> Iterator[tuple[str, Any]]:
    """The bodies and the parameters of all routes."""
    for room in ROUTERS:
        for route in room.router.routes:
            if isinstance(route, APIRoute):
                parts = route.dependant
                for field in (*parts.path_params, *parts.query_params):
                    info = field.field_info
                    yield f"{route.path} {field.name}", Annotated[(info.annotation, info)]
                for body in parts.body_params:
                    yield route.path, body.field_info.annotation


ROOTS: dict[str, Any] = {
    "task": TaskSpec,
    "federation": Federation,
    "scenario": Scenario,
    **dict(_parameters()),
}


def _numbers(name: str, kind: Any, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Each place of a type where a number may stand, with the type of that number."""
    bare, *metadata = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare in (int, float):
        yield name, kind
    elif get_origin(bare) in (types.UnionType, Union):
        for part in get_args(bare):
            wrapped = metadata and part in (int, float)
            yield from _numbers(name, Annotated[(part, *metadata)] if wrapped else part, seen)
    elif get_args(bare) and get_origin(bare) is not Literal:
        for part in get_args(bare):
            yield from _numbers(f"{name}[]", part, seen)
    elif isinstance(bare, type) and bare not in seen:
        seen.add(bare)
        for field, hint in _fields(bare):
            yield from _numbers(f"{name}.{field}", hint, seen)


def _fields(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The fields that a document of this type has."""
    if issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            yield name, Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    elif is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        yield from ((field.name, hints[field.name]) for field in fields(kind))


def _all() -> Mapping[str, Any]:
    seen: set[Any] = set()
    return {place: kind for root, kind in ROOTS.items() for place, kind in _numbers(root, kind, seen)}


NUMBERS = _all()

_ELEMENT = ("queues", 0, "computing_element")
FREE = {
    "federation.storages[].options": ("storages", 0, "options"),
    "federation.storages[].transfer_service.options": ("storages", 0, "transfer_service", "options"),
    "federation.queues[].computing_element.options": (*_ELEMENT, "options"),
    "federation.queues[].computing_element.servers[].options": (*_ELEMENT, "servers", 0, "options"),
    "federation.queues[].computing_element.credentials[].options": (*_ELEMENT, "credentials", 0, "options"),
    "federation.sites[].attributes": ("sites", 0, "attributes"),
    "federation.catalogues[].options": ("catalogues", 0, "options"),
    "federation.plugin_options[]": ("plugin_options", "production"),
}
"""The free values of a federation, by place, and a path to them in a document."""

EXPRESSIONS = ("task.site_requirements", "task.site_rank", "federation.sites[].requirements")
"""ClassAd expressions."""


def test_the_numbers_of_all_documents_are_found() -> None:
    assert len(NUMBERS) > 150
    for place in (
        "task.cpu_efficiency",
        "task.inputs[].size",
        "federation.queues[].core_power",
        "federation.staging.ageing_period",
        "federation.brokerage.nqueue_limit_site_by_share[]",
    ):
        assert place in NUMBERS, place
    assert any(place.endswith("/pilot/match.cores") for place in NUMBERS)
    assert any(place.endswith("/pilot/report.reports[].wall_seconds") for place in NUMBERS)


TYPES = {(repr(kind), " " in place): place for place, kind in NUMBERS.items()}
"""One of the places with each type of number. Parameters of addresses are texts."""


@pytest.mark.parametrize("place", sorted(TYPES.values()))
def test_no_number_can_be_endless_tiny_huge_or_a_truth_value(place: str) -> None:
    kind = TypeAdapter(NUMBERS[place])
    by_name = " " in place  # parameters of addresses are texts
    for strange in STRANGE:
        if by_name and strange == 5e-324:
            continue  # such a text is only compared with times
        with pytest.raises(ValidationError):
            kind.validate_python(str(strange) if by_name else strange)
    schema = kind.json_schema()
    options = schema.get("anyOf", [schema])
    bounded = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    numeric = [one for one in options if one.get("type") in ("integer", "number")]
    assert all(bounds & one.keys() for one in numeric for bounds in bounded), schema
    if all(one.get("minimum", one.get("exclusiveMinimum")) >= 0 for one in numeric):
        with pytest.raises(ValidationError):
            kind.validate_python("-1" if by_name else -1)


def test_a_task_with_an_efficiency_of_next_to_nothing_is_refused() -> None:
    with pytest.raises(BadDocument, match="cpu_efficiency"):
        checked(TaskSpec, {"name": "t", "cpu_efficiency": 5e-324, "cpu_time": 1e12})


def test_what_fields_ask_for_together_is_bounded() -> None:
    spec = TaskSpec(name="t", cpu_time=1e12, events_per_job=2**31 - 1, cpu_efficiency=0.001)
    assert [fault.path for fault in task_faults(spec)] == [("cpu_time",)]
    assert [fault.path for fault in task_faults(TaskSpec(name="t", ram=1e9, cores=10**6))] == [("ram",)]
    assert not task_faults(TaskSpec(name="t", cpu_time=1e4, events_per_job=10_000, ram=4000, cores=64))


@pytest.mark.parametrize("value", [1.0, 6000.0, 6001.0, 10_800_001.0, 1e15, 1e29, 1e300, float("inf")])
def test_p1_times_are_rounded_up_without_a_loop(value: float) -> None:
    rounded = _rounded_up(value, CPU_SEGMENTS)
    assert isfinite(rounded)
    assert rounded >= min(value, LARGEST_WORK)
    assert rounded in CPU_SEGMENTS or rounded < 2 * value


def _places_of(kind: Any, root: str, wanted: Any, seen: set[Any]) -> Iterator[str]:
    """The places of a document where a type stands."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if bare == wanted:
        yield root
    elif get_args(bare) and get_origin(bare) is not Literal:
        union = get_origin(bare) in (types.UnionType, Union)
        for part in get_args(bare):
            yield from _places_of(part, root if union else f"{root}[]", wanted, seen)
    elif isinstance(bare, type) and bare not in seen:
        for field, hint in _fields(bare):
            yield from _places_of(hint, f"{root}.{field}", wanted, seen | {bare})


def test_the_free_values_of_documents_are_found() -> None:
    assert set(_places_of(Federation, "federation", Mapping[str, Any], set())) == FREE.keys()
    free = set(_places_of(Federation, "federation", Any, set()))
    assert {place.removesuffix("[]") for place in free} == FREE.keys(), "free, and without a bound"
    assert not set(_places_of(TaskSpec, "task", Any, set()))


def _federation_document() -> dict[str, Any]:
    document: dict[str, Any] = to_document(federation([queue()]))
    document["queues"][0]["computing_element"]["servers"] = [{"name": "door"}]
    document["queues"][0]["computing_element"]["credentials"] = [{"person": "alice"}]
    document["storages"][0]["transfer_service"] = {"kind": "fts", "url": "https://fts.example.org"}
    document["catalogues"] = [{"name": "other", "kind": "rucio", "url": "https://rucio.example.org"}]
    document["plugin_options"] = {"production": {}}
    return document


def _put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for part in path[:-1]:
        document = document[part]
    document[path[-1]] = value


@pytest.mark.parametrize("strange", [value for value in STRANGE if value is not True], ids=str)
@pytest.mark.parametrize("place", FREE)
def test_no_free_value_holds_an_endless_tiny_or_huge_number(place: str, strange: float) -> None:
    for value in (strange, [1, strange], {"deep": [{"er": strange}]}):
        document = _federation_document()
        _put(document, FREE[place], {"Mine": value})
        with pytest.raises(BadDocument) as raised:
            checked(Federation, document)
        path = FREE[place] if isfinite(strange) else ()
        assert any(fault.path[: len(path)] == path for fault in raised.value.faults)


def test_free_values_within_bounds_are_taken() -> None:
    document = _federation_document()
    document["storages"][0]["options"] = {"port": 443, "verify": True, "rate": 0.5, "text": "1e308"}
    document["sites"][0]["attributes"] = {"Mine": [1, 2.5, True, "x"]}
    document["catalogues"] = []
    document["storages"][0]["transfer_service"] = None
    assert checked(Federation, document).storages[0].options["verify"] is True


def test_the_expressions_of_documents_are_found() -> None:
    found = {
        f"{root}.{name}"
        for root, kind in (("task", TaskSpec), ("federation.sites[]", Site))
        for name, field in json_schema(kind)["properties"].items()
        if "ClassAd expression" in field.get("description", "").replace("\n", " ")
    }
    assert found == set(EXPRESSIONS)


@pytest.mark.parametrize("number", ["1e-400", "5e-324", "1e308", "1e999", "1" + 30 * "0", "0.0000000001"])
@pytest.mark.parametrize("place", EXPRESSIONS)
def test_no_expression_holds_an_endless_tiny_or_huge_number(place: str, number: str) -> None:
    text = f"TARGET.MaxMemory > 1 / {number}"
    if place.startswith("task"):
        values: dict[str, Any] = {place.partition(".")[2]: text}
        faults = task_faults(TaskSpec(name="t", **values))
        assert [fault.path for fault in faults] == [(place.partition(".")[2],)]
    else:
        document = _federation_document()
        document["sites"][0]["requirements"] = text
        with pytest.raises(BadDocument, match="requirements"):
            checked(Federation, document)
    for ad in (f"[ Mine = {number} ]", f"[ Requirements = {text} ]"):
        with pytest.raises(ClassAdError):
            parsed(ad, "S")


@pytest.mark.parametrize("number", ["0", "0.0", "0e5", "1e-9", "00", "9007199254740992"])
def test_expressions_hold_ordinary_numbers(number: str) -> None:
    assert not list(task_faults(TaskSpec(name="t", site_rank=number)))


WORLD = {place for place, _ in _numbers("world", World, {Federation, TaskSpec})}


def _made(hint: Any) -> Any:
    """A value of a type: one of each record, and ones for numbers."""
    ready = {Federation: federation([queue()]), TaskSpec: TaskSpec(name="t"), Any: 1}
    plain = {str: "a", int: 1, float: 1.0, bool: False}
    origin, parts = get_origin(hint), get_args(hint)
    made: Any
    if hint in ready or hint in plain:
        made = (ready | plain)[hint]
    elif origin is Literal:
        made = parts[0]
    elif origin in (Annotated, types.UnionType, Union):
        made = _made(parts[0])
    elif origin in (tuple, list):
        made = tuple(_made(part) for part in parts if part is not Ellipsis)
    elif origin is Mapping:
        made = {_made(parts[0]): _made(parts[1])}
    elif is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        made = hint(**{field.name: _made(hints[field.name]) for field in fields(hint)})  # type: ignore[operator]
    else:
        made = next(iter(hint))
    return made


def _path(place: str, document: Any) -> tuple[Any, ...]:
    """The first path in a document to a place of its type."""
    path: tuple[Any, ...] = ()
    for name in re.findall(r"[^.\[\]]+|\[\]", place):
        part = (next(iter(document)) if isinstance(document, dict) else 0) if name == "[]" else name
        path, document = (*path, part), document[part]
    return path


def test_the_numbers_of_worlds_are_found() -> None:
    assert len(WORLD) > 120
    assert {"world.time", "world.jobs[].wake_at", "world.borrowings[].reads[]"} <= WORLD


@pytest.mark.parametrize("strange", [value for value in STRANGE if isfinite(value)], ids=str)
def test_no_number_of_a_world_is_tiny_huge_or_a_truth_value(strange: float) -> None:
    """Worlds are read by ``pilotage plan``, whoever changed them. A fault may hide others: look again."""
    left = set(WORLD)
    while left:
        document = to_document(_made(World))
        paths = {place: _path(place.removeprefix("world"), document) for place in left}
        for path in paths.values():
            _put(document, path, strange)
        with pytest.raises(BadDocument) as raised:
            checked(World, document)
        told = {fault.path for fault in raised.value.faults}
        found = {place for place, path in paths.items() if any(one[: len(path)] == path for one in told)}
        assert found, left
        left -= found


def test_no_number_of_a_world_is_endless() -> None:
    for strange in (value for value in STRANGE if not isfinite(value)):
        with pytest.raises(BadDocument, match="a number that is not finite"):
            checked(World, to_document(_made(World)) | {"time": strange})


def test_attributes_of_advertisements_in_worlds_are_bounded() -> None:
    for strange in (5e-324, 1e308, 10**30):
        document = to_document(_made(World))
        document["advertisements"][0]["attributes"] = {"Mine": [{"deep": strange}]}
        with pytest.raises(BadDocument, match="Mine"):
            checked(World, document)


def test_a_world_of_any_time_is_shown() -> None:
    assert moment(1e15) == "9999-12-31 23:59:59 UTC"
    assert moment(-1.0) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize("kind", [TaskSpec, Queue])
def test_what_ifs_take_no_number_that_a_document_does_not_take(kind: Any) -> None:
    names = [place.partition(".")[2] for place, _ in _numbers("x", kind, set())]
    single = [name for name in names if name.isidentifier()]
    assert len(single) > 5
    state = world(federation([queue("Q")]), task(1), jobs=[])
    for name in single:
        for strange in STRANGE:
            values = {name: strange}
            with pytest.raises(BadDocument):
                changed(state, Changes(task=values) if kind is TaskSpec else Changes(queues={"Q": values}))


@pytest.mark.parametrize(
    "name",
    [
        *("architecture", "sw_project", "sw_version", "container_name", "processing_type"),
        *("working_group", "workflow", "ip_connectivity", "conda"),
    ],
)
@pytest.mark.parametrize("text", ["a\0b", "a\nb", "x" * 1001])
def test_short_texts_of_a_task_are_short_and_without_control_characters(name: str, text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(TaskSpec).validate_python({"name": "t", name: text})
