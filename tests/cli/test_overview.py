"""Status in one sentence, and what goes on now in ten lines."""

import json
import time
from typing import Any

from .conftest import FakeServer, Pilotage, remark
from .test_breakers import BREAKER
from .test_bulk import view

QUEUE = {"name": "short", "status": "online", "pilots": {"running": 2, "failed": 9}, "breakers": []}


def test_status_says_why_a_task_waits_and_its_place_in_line(pilotage: Pilotage, server: FakeServer) -> None:
    texts = ["nothing starts: no pilot", "3 jobs wait for a free pilot at short", "12 tasks are ahead"]
    remarks = [remark(text, command="pilotage doctor" if text is texts[0] else "") for text in texts]
    waiting: Any = {"jobs": {"activated": 3}, "share": "default", "created": 1.0, "remarks": remarks}
    server.answers["GET /tasks/5"] = view(5, **waiting)
    server.answers["GET /tasks/5/jobs"] = {"jobs": []}
    shown = pilotage("status", "5").stdout.splitlines()
    assert shown[2:7] == [texts[0], "    do: pilotage doctor", *texts[1:], "more: pilotage explain 5"]
    assert json.loads(pilotage("status", "5", "--json").stdout)["remarks"] == remarks


def test_now_is_ten_lines(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": []}
    running = [
        view(5, jobs={"activated": 3, "running": 2}),
        view(6, held="bob", jobs={"held": 4, "transferring": 1}),
    ]
    # A task that went on between the two requests counts once.
    server.answers["GET /tasks?state=splitting&limit=1000"] = {"tasks": [view(5, "splitting")]}
    server.answers["GET /tasks?state=running&limit=1000"] = {"tasks": running}
    failed = [view(9, "failed", since=time.time() - 60), view(8, "failed", since=1.0)]
    server.answers["GET /tasks?state=failed&limit=1000"] = {"tasks": failed}
    breaker = {**BREAKER, "kind": "queue", "what": "jobs at short"}
    server.answers["GET /queues"] = {
        "queues": [{**QUEUE, "breakers": [breaker]}, {**QUEUE, "name": "long", "status": "offline"}]
    }
    held = remark("held by bob: nothing of it starts", "held")
    server.answers["GET /tasks/6"] = view(6, jobs={"held": 4}, remarks=[held])
    lines = pilotage("status", "--now").stdout.splitlines()
    assert lines[:-1] == [
        "tasks:   1 waiting, 1 running",
        "wait:    7 jobs: 4 held, 3 waiting for a slot",
        "why:     task 6 fit-6: held by bob: nothing of it starts",
        "run:     2 jobs",
        "finish:  1 job",
        "held:    1 task: 6 fit-6",
        "failed:  1 task: 9 fit-9 in the last day; why: pilotage jobs 9 --failed",
        "pilots:  4 running at 2 queues",
        "offline: long",
    ]
    assert lines[-1].startswith("breaker: jobs at short: open, 2023-11-14 22:14:20 UTC: 5 jobs failed fast")
    assert len(lines) <= 10
    assert len(json.loads(pilotage("status", "--now", "--json").stdout)["tasks"]) == 2
    for words in (("5", "--now"), ("--now", "--watch"), ("--now", "--label", "a")):
        assert pilotage("status", *words).exit_code == 2


def test_now_says_where_it_stops_counting(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": []}
    running = [view(at, jobs={"running": 1}) for at in range(1000)]
    server.answers["GET /tasks?state=running&limit=1000"] = {"tasks": running}
    server.answers["GET /queues"] = {"queues": []}
    lines = pilotage("status", "--now").stdout.splitlines()
    assert lines[:2] == [
        "tasks:   1000 or more running",
        "         jobs of 1000 tasks of a state are counted below, and no others",
    ]


def test_now_without_anything(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /tasks"] = {"tasks": []}
    server.answers["GET /queues"] = {"queues": []}
    lines = pilotage("status", "--now").stdout.splitlines()
    assert (lines[0], lines[4]) == ("tasks:   none is under way", "failed:  no task in the last day")
