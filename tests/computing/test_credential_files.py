"""When a credential ends, by what its file says: it may come from anywhere."""

import base64
import json

import pytest

from pilotage.adapters.computing.credential_files import life_of


def web_token(claims: str) -> bytes:
    return b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in ("{}", claims, "x"))


def test_a_web_token_begins_and_ends_as_it_says() -> None:
    assert life_of(web_token(json.dumps({"iat": 5, "exp": 10}))) == (5.0, 10.0)
    assert life_of(web_token(json.dumps({"exp": 10.5}))) == (None, 10.5)


@pytest.mark.parametrize(
    "end", ["1e400", "Infinity", "-Infinity", "NaN", "-1e300", "1e30", '"10"', "null", "9" * 400]
)
def test_an_end_that_no_date_can_show_is_none(end: str) -> None:
    assert life_of(web_token(f'{{"exp": {end}}}')) is None
