"""The OpenAPI document says what every field is, with its unit."""

from pilotage.api.descriptions import FIELDS

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
