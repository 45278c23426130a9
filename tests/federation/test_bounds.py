"""Every number of every document that can be sent is finite and bounded, where its field is declared."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from pilotage.api.app import ROUTERS
from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument
from pilotage.federation.task_checks import task_faults
from pilotage.model.documents.serialization import from_stored, to_document
from pilotage.model.records.federation import Federation
from pilotage.model.records.requirements import CPU_SEGMENTS, LARGEST_WORK, Requirements, _rounded_up
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.scenario import Scenario
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


@pytest.mark.parametrize("place", NUMBERS)
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


def test_a_stored_task_with_numbers_beyond_the_bounds_of_today_is_read_and_split() -> None:
    """An earlier version took ``cpu_efficiency: 5e-324``: the task still stands in some stores."""
    before = to_document(TaskSpec(name="t")) | {"cpu_efficiency": 5e-324, "cpu_time": 1e12, "ram": 1e300}
    spec = from_stored(TaskSpec, TypeAdapter(dict[str, Any]).dump_json(before))
    assert (spec.cpu_efficiency, spec.ram) == (0.001, 1e9)
    assert isfinite(Requirements.of(spec, Identity(name="a")).cpu_time)


def test_a_stored_federation_beyond_the_bounds_of_today_stays_in_force() -> None:
    document = to_document(federation([queue(computing_element=None)]))
    document["queues"][0]["core_power"] = 1e-300
    document["staging"]["copies_kept"] = 1e300
    found = from_stored(Federation, TypeAdapter(dict[str, Any]).dump_json(document))
    assert (found.queues[0].core_power, found.staging.copies_kept) == (0.001, 1e10)
    assert replace(found, name="x")
