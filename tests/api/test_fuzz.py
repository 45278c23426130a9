"""Whatever is sent, the answer is a document that says what is wrong, never an unexpected fault."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties import examples

from .conftest import ALICE, House, Submit
from .test_access import BODIES, CLOSED, PILOTS, Route

pytestmark = pytest.mark.slow

JOBS = 200
NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63) - 1, 2**80, 0.5, -1e308, 1e308])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=5)
    | st.sampled_from(["\x00", "done", "failed", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
REPORT = st.fixed_dictionaries(
    {
        "job": st.integers(1, JOBS) | NUMBERS,
        "attempt": st.just(1) | NUMBERS,
        "state": st.sampled_from(["starting", "running", "done", "failed"]),
    },
    optional={
        "error": st.text(max_size=5) | st.just("\x00"),
        "exit_code": NUMBERS,
        "cpu_seconds": NUMBERS,
        "wall_seconds": NUMBERS,
        "max_rss": NUMBERS,
        "max_workdir": NUMBERS,
        "disk_io": NUMBERS,
        "outputs": st.lists(
            st.fixed_dictionaries(
                {"name": st.text(max_size=5), "size": NUMBERS, "checksum": st.text(max_size=5)}
            ),
            max_size=2,
        ),
    },
)
REPORTS = st.fixed_dictionaries(
    {}, optional={"holding": st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2), "reports": st.lists(REPORT)}
)


IN_PATHS = defaultdict(lambda: "north", task="1", job="1", token="1")
"""The values of parameters in paths; places and people are named alike."""


def changed(body: dict[str, Any]) -> st.SearchStrategy[Any]:
    """The body of a good request with any value in the place of some of its fields, and fields it has not."""
    fields = {name: st.just(value) | VALUES for name, value in body.items()}
    return st.fixed_dictionaries({}, optional={**fields, "more": VALUES}) | VALUES


def call(house: House, route: Route, body: Any) -> None:
    method, path = route
    client = house.as_("pilot", ALICE, 1) if route in PILOTS else house.as_("operator", ALICE)
    answer = client.request(method, path.format_map(IN_PATHS), json=body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert {"detail", "refused"} & set(answer.json())


FUZZ = settings(
    max_examples=examples(0.6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.hypothesis
@pytest.mark.parametrize("route", [route for route in CLOSED if route in BODIES])
def test_no_body_is_an_unexpected_fault(unchanged: House, route: Route) -> None:
    @FUZZ
    @given(changed(BODIES[route]))
    def check(body: Any) -> None:
        call(unchanged, route, body)

    check()


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"\xff", "UTF-8"), (b"[" * 30_000, "nests too deeply"), (b"9" * 5000, "too many digits"), (b"{", "")],
)
def test_a_body_that_no_parser_reads_is_refused_with_a_reason(
    unchanged: House, body: bytes, told: str
) -> None:
    client = unchanged.as_("operator", ALICE)
    json = {"Content-Type": "application/json"}
    for method, path in (("POST", "/tasks"), ("PUT", "/federation"), ("POST", "/tokens")):
        answer = client.request(method, path, content=body, headers=json)
        assert answer.status_code == 422, (path, answer.text)
        assert told in answer.json()["detail"][0]["message"]


def test_a_million_faults_are_counted_and_not_told(house: House) -> None:
    """To tell them took the event loop, which is everybody's, 40 s."""
    many = {f"k{number}": 1 for number in range(2000)}
    operator, (_, pilot), site = house.as_("operator", ALICE), house.pilot(), "/sites/A/ad"
    calls = [
        ("POST", "/tokens"),
        ("POST", "/files"),
        ("POST", "/tasks/1/retry"),
        ("PUT", site),
        ("POST", "/pilot/report"),
    ]
    for method, path in calls:
        answer = (pilot if "pilot" in path else operator).request(method, path, json=many)
        assert answer.status_code == 422
        (fault,) = answer.json()["detail"]
        assert "faults; send one record to see its" in fault["message"]


@pytest.mark.hypothesis
def test_no_report_is_an_unexpected_fault(house: House, submit: Submit) -> None:
    house.activate(submit(jobs=JOBS, max_attempts=1, scouts=0))
    _, pilot = house.pilot()
    offer = {"cores": JOBS, "memory": 1e6, "walltime": 1e6, "max_jobs": JOBS}
    assert len(pilot.post("/pilot/match", json=offer).json()["works"][0]["jobs"]) == JOBS

    @FUZZ
    @given(REPORTS)
    def check(body: Any) -> None:
        call(house, ("POST", "/pilot/report"), body)

    check()


@pytest.mark.parametrize(
    "field",
    [
        "exit_code",
        "cpu_seconds",
        "wall_seconds",
        "max_rss",
        "max_workdir",
        "disk_io",
        "attempt",
        "job",
        "outputs",
    ],
)
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_report_with_a_number_that_no_store_holds_is_refused(house: House, field: str, number: int) -> None:
    _, pilot = house.pilot()
    report: dict[str, Any] = {"job": 1, "attempt": 1, "state": "failed"}
    size = {"name": "out", "size": number, "checksum": ""}
    report[field] = [size] if field == "outputs" else number
    answer = pilot.post("/pilot/report", json={"reports": [report]})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["field"].startswith(f"reports.0.{field}")


@pytest.mark.parametrize("field", ["priority", "jobs", "events_per_job", "cores", "max_cores", "size"])
def test_a_task_with_a_number_that_no_store_holds_is_refused(unchanged: House, field: str) -> None:
    file = {"name": "a", "size": 2**63, "replicas": ["north-disk"]}
    task = {"name": "work", "inputs": [file]} if field == "size" else {"name": "work", field: 2**63}
    answer = unchanged.as_("user", ALICE).post("/tasks", json={"tasks": [task]})
    assert answer.status_code == 422
    assert answer.json()["refused"][0]["errors"][0]["field"].endswith(field)
