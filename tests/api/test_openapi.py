"""The OpenAPI document says what every field is, with its unit."""

from typing import Any

import pytest

from pilotage.server.api import PREFIX
from pilotage.server.api.descriptions import FIELDS, PARAMETERS

from .conftest import House, openapi
from .test_access import CLOSED, OPEN, UNDOCUMENTED

pytestmark = pytest.mark.slow  # the document of all routes takes a second to make


def test_openapi_shows_every_route_and_which_need_a_token() -> None:
    documented = {
        (method.upper(), path.removeprefix(PREFIX)): "security" in operation
        for path, operations in openapi()["paths"].items()
        for method, operation in operations.items()
    }
    assert documented == dict.fromkeys(set(CLOSED) - UNDOCUMENTED, True) | dict.fromkeys(OPEN, False)


def test_every_field_has_a_description() -> None:
    schemas = openapi()["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not described.get("description")
    ]
    assert bare == []


def test_no_description_is_left_of_fields_that_are_gone() -> None:
    schemas = openapi()["components"]["schemas"]
    fields = {field for schema in schemas.values() for field in schema.get("properties", {})}
    whole = {f"{name}.{field}" for name, schema in schemas.items() for field in schema.get("properties", {})}
    assert set(FIELDS) <= fields | whole


def parameters() -> list[tuple[str, dict[str, Any]]]:
    """The parameters of each call, with its path."""
    return [
        (path, parameter)
        for path, operations in openapi()["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
    ]


def test_every_parameter_has_a_description() -> None:
    assert [(path, one["name"]) for path, one in parameters() if not one.get("description")] == []


def test_no_description_is_left_of_parameters_that_are_gone() -> None:
    assert set(PARAMETERS) <= {one["name"] for _, one in parameters()}


def test_the_document_that_is_served_is_made_once_and_by_another_process(house: House) -> None:
    client = house.client()
    assert [client.get("/openapi.json").json() for _ in range(2)] == [openapi()] * 2
