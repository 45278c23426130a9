"""The OpenAPI document says what every field is, with its unit."""

from typing import Any

from pilotage.api.descriptions import FIELDS, PARAMETERS

from .conftest import House


def test_every_field_has_a_description(house: House) -> None:
    schemas = house.client().get("/openapi.json").json()["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not described.get("description")
    ]
    assert bare == []


def test_no_description_is_left_of_fields_that_are_gone(house: House) -> None:
    schemas = house.client().get("/openapi.json").json()["components"]["schemas"]
    fields = {field for schema in schemas.values() for field in schema.get("properties", {})}
    whole = {f"{name}.{field}" for name, schema in schemas.items() for field in schema.get("properties", {})}
    assert set(FIELDS) <= fields | whole


def parameters(house: House) -> list[tuple[str, dict[str, Any]]]:
    """The parameters of each call, with its path."""
    paths = house.client().get("/openapi.json").json()["paths"]
    return [
        (path, parameter)
        for path, operations in paths.items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
    ]


def test_every_parameter_has_a_description(house: House) -> None:
    assert [(path, one["name"]) for path, one in parameters(house) if not one.get("description")] == []


def test_no_description_is_left_of_parameters_that_are_gone(house: House) -> None:
    assert set(PARAMETERS) <= {one["name"] for _, one in parameters(house)}
