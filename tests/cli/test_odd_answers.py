"""Answers of a server of another version, or of none at all: none ends a command with a traceback."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.described_answers import ANSWERS, sample

from .conftest import FakeServer, Pilotage

ADDRESSES = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", name) + r"(\?.*)?"), name) for name in ANSWERS]

COMMANDS = (
    *("status", "status 1", "status align", "status workflow:1", "status --now", "workflows", "stuck"),
    *("jobs 1", "failures", "outputs 1", "logs job:1", "logs pilot:1", "logs 1 --failed", "logs 1 --match x"),
    *("explain 1", "explain 1 --what-if ram=4000", "explain job:1", "explain workflow:1", "explain pilot:1"),
    *("explain transfer:1", "explain 1 --queue q", "wait 1 --timeout 0.01"),
    *("submit task.yaml", "run -- true", "plan broker --task task.yaml", "retry 1", "retry job:1 --dry-run"),
    *("set 1 ram=4000", "hold 1", "release 1", "finish 1", "cancel 1", "cancel job:1", "publish 1"),
    *("queues", "queues drain q --because x", "queues open q", "shares", "shares --days 2", "breakers"),
    *("sites", "sites ad s", "sites match 1", "pilots", "storages", "storages move a b --dry-run", "servers"),
    *(
        "transfers",
        "transfers --prioritise 1=5",
        "breakers lift x",
        "servers s",
        "notify list",
        "notify show",
    ),
    *(
        "notify set --url https://example.org",
        "notify secret",
        "notify test",
        "token list",
        "token create --name ada",
    ),
    *(
        "token revoke user:x:1",
        "secrets list",
        "people close ada --because x --dry-run",
        "world",
        "world --output w.json",
        "record r.yaml",
    ),
    *("federation show", "federation history", "federation rollback 1 --dry-run", "fetch 1 --to there"),
    *("federation load federation.yaml", "files list", "files list --dataset d", "files describe f"),
    *("files replicas f", "files forget f --dry-run", "files datasets", "files versions d", "files verify f"),
    *("files define d --match x", "files undefine d --dry-run", "files register --storage s --match x"),
)
"""Commands that read answers. Those that take others' words for it are checked one by one elsewhere."""

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63 - 1, -(2**63), 1.5, 1e308, -1e308),
    *("", "x", "\x1b[2J\n", "9" * 5000, [], [[]], [None], {}, {"a": 1}, {"id": "x"}),
)
RAW = (
    *(b"", b"null", b"5", b'"x"', b"[]", b"{}", b"<html>", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000),
    *(
        b'{"id": NaN}',
        b'{"id": 1e999}',
        b'{"id": "\\ud800"}',
        b'{"id": 1, "id": 2}',
        b'{"id": 99999999999999999999}',
    ),
)
NOTHING = object()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in an answer."""
    yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from places(part, (*at, name))


def changed(value: Any, at: tuple[Any, ...], odd: Any) -> Any:
    """An answer with another value at a place, or without it."""
    if not at:
        return odd
    copy = value.copy()
    if len(at) == 1 and odd is NOTHING:
        del copy[at[0]]
    else:
        copy[at[0]] = changed(copy[at[0]], at[1:], odd)
    return copy


def operation(call: str) -> str:
    """The operation that a call is of."""
    return next((name for address, name in ADDRESSES if address.fullmatch(call)), "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_answer_ends_a_command_with_a_traceback(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.chdir(pilotage.home)
    (pilotage.home / "task.yaml").write_text("name: t\ncommand: [run]\n")
    (pilotage.home / "federation.yaml").write_text("name: f\nsites: [{name: s}]\n")
    words = data.draw(st.sampled_from(COMMANDS)).split()
    odd_at = data.draw(st.integers(0, 2))
    calls: list[str] = []

    def take(call: str) -> tuple[int, Any]:
        name = operation(call)
        if name == "GET /health/live" or not name:
            return 404, {"detail": "Not Found"}
        calls.append(name)
        answer = sample(ANSWERS[name])
        if len(calls) - 1 != odd_at:
            return 200, answer
        if data.draw(st.integers(0, 9)) == 0:
            return data.draw(st.sampled_from((200, 409, 422, 500))), data.draw(st.sampled_from(RAW))
        at = data.draw(st.sampled_from(list(places(answer))))
        odd = data.draw(st.sampled_from((*ODD, NOTHING) if at else ODD))
        return 200, json.dumps(changed(answer, at, odd)).encode()

    monkeypatch.setattr(server, "take", take)
    told = pilotage(*words, "--json") if data.draw(st.booleans()) else pilotage(*words)
    assert told.exception is None or isinstance(told.exception, SystemExit), (words, calls, told.exception)
