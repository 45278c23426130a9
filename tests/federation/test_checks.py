"""Contradictions within a federation, and between a task and a federation."""

# ruff: noqa: E501 -- one case a line

from dataclasses import replace
from typing import Any

import pytest

from pilotage.federation.checks import check_task, federation_faults
from pilotage.federation.faults import Path
from pilotage.federation.source_files import MAX_PAYLOAD
from pilotage.model.records.constants import SubmitPool
from pilotage.model.records.federation import (
    BrokerageConstants,
    ComputingElement,
    DirectorConstants,
    Federation,
    GlobalShare,
    Link,
    LoopConstants,
    Queue,
    Server,
    Site,
    StagingConstants,
    Storage,
)
from pilotage.model.records.work import InputFile, InputPattern, MergeSpec, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.request_budget import MOST_FAULTS

FEDERATION = Federation(
    name="north",
    sites=(Site(name="oslo", nucleus=True), Site(name="lund"), Site(name="empty")),
    storages=(
        Storage(name="oslo-disk", site="oslo", url="file:///o"),
        Storage(name="lund-disk", site="lund", url="file:///l"),
    ),
    queues=(
        Queue(name="oslo", site="oslo", storage="oslo-disk", computing_element=ComputingElement()),
        Queue(name="lund", site="lund", storage="oslo-disk", parent="oslo"),
    ),
    links=(Link(source="lund", destination="oslo"), Link(source="oslo", destination="lund")),
    shares=(
        GlobalShare(name="default"),
        GlobalShare(name="atlas", vo="atlas"),
        GlobalShare(name="top", vo="atlas", parent="atlas"),
    ),
)
INPUT = InputFile(name="a", size=1, replicas=("lund-disk",))
TASK = TaskSpec(name="count", command=("wc",), outputs=("a",))


def check_federation(federation: Federation) -> list[tuple[Path, str]]:
    return [(fault.path, fault.text) for fault in federation_faults(federation)]


def places(found: list[tuple[Path, str]]) -> list[Path]:
    return [path for path, _ in found]


def test_a_sound_federation_and_task_have_no_faults() -> None:
    assert check_federation(FEDERATION) == []
    assert check_task(TASK, FEDERATION) == []


def test_a_queue_may_use_the_storage_of_another_site() -> None:
    assert FEDERATION.queues[1].storage == "oslo-disk"
    assert check_federation(FEDERATION) == []


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"storages": (*FEDERATION.storages, Storage(name="s", site="oslu", url="file:///s"))},
            ("storages", 2, "site"),
            "there is no site 'oslu'; did you mean oslo?",
        ),
        (
            {"links": (Link(source="lund", destination="x"),)},
            ("links", 0, "destination"),
            "there is no site 'x'; known: empty, lund, oslo",
        ),
        (
            {"shares": (GlobalShare(name="a", parent="b"),)},
            ("shares", 0, "parent"),
            "there is no share 'b'; known: a",
        ),
        (
            {"staging": StagingConstants(sub_shares=False, base_priorities={"atlas-upload": 1})},
            ("staging", "base_priorities", "atlas-upload"),
            "is for a sub-share, and sub_shares is false; give the share itself, or true",
        ),
        (
            {"loops": LoopConstants(heartbeat=7200)},
            ("loops", "heartbeat"),
            "a heartbeat every 7200 s is never in time for timeouts.heartbeat of 7200 s; give less than 7200",
        ),
        (
            {"plugin_options": {"lottery": {}}},
            ("plugin_options", "lottery"),
            "there is no brokerage plugin 'lottery'",
        ),
        (
            {"plugin_options": {"production": {"speed": 11}}},
            ("plugin_options", "production", "speed"),
            "there is no such option; known: off, by_vo",
        ),
        (
            {"plugin_options": {"production": {"by_vo": {"atlas": {"off": ["B15", "B99"]}}}}},
            ("plugin_options", "production", "by_vo", "atlas", "off", 1),
            "no rule 'B99' can be switched off; known: B1, B3, B4",
        ),
        (
            {"plugin_options": {"production": {"by_vo": {"atlas": {"constants": {"pending_time": -1}}}}}},
            ("plugin_options", "production", "by_vo", "atlas", "constants", "pending_time"),
            "Input should be greater than or equal to 0",
        ),
        (
            {"brokerage": BrokerageConstants(nqueue_limit_site_by_share={"tops": 5})},
            ("brokerage", "nqueue_limit_site_by_share", "tops"),
            "there is no share 'tops'; did you mean top?",
        ),
    ],
)
def test_a_contradiction_is_told_with_its_place(changes: dict[str, object], path: Path, message: str) -> None:
    (found,) = check_federation(replace(FEDERATION, **changes))  # type: ignore[arg-type]
    assert found[0] == path
    assert found[1].startswith(message)


def test_a_circle_of_parents_is_told_once_and_not_at_those_below_it() -> None:
    shares = (
        GlobalShare(name="a", parent="b"),
        GlobalShare(name="b", parent="c"),
        GlobalShare(name="c", parent="b"),
        GlobalShare(name="d", parent="d"),
    )
    found = check_federation(replace(FEDERATION, shares=shares))
    assert places(found) == [("shares", 1, "parent"), ("shares", 3, "parent")]
    assert found[0][1] == "b under c under b is a circle; give no parent to the topmost"


@pytest.mark.parametrize(
    ("policy", "sound"),
    [
        ("", True),
        ("type=evgensimul:100%", True),
        ("type=evgen:0%,group=phys.*:50%,gshare=*:1%", True),
        ("priority>=800:0%", True),
        ("type=any:group=AP_.*:0%", True),
        ("type=any", False),
        ("100%", False),
        ("tipe=any:10%", False),
        ("group=phys(:10%", False),
        ("priority>high:10%", False),
        ("type=any:101%", False),
        ("group=a{99999999999999999999}:10%", False),
        (f"group={'(' * 3000}{')' * 3000}:10%", False),
        (f"type=any:{'9' * 5000}%", False),
        (f"priority>{'9' * 5000}:10%", False),
    ],
)
def test_a_fairshare_policy_that_does_not_parse_is_a_fault_of_its_queue(policy: str, sound: bool) -> None:
    queue = replace(FEDERATION.queues[0], fairshare_policy=policy)
    found = check_federation(replace(FEDERATION, queues=(queue, FEDERATION.queues[1])))
    assert places(found) == ([] if sound else [("queues", 0, "fairshare_policy")])


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (replace(TASK, architecture="#"), ("architecture",)),
        (replace(TASK, sw_version="25.0.1"), ("sw_project",)),
        (replace(TASK, only_tags=True), ("only_tags",)),
        (replace(TASK, events_per_job=5, min_events=6), ("min_events",)),
        (replace(TASK, nucleus="olso"), ("nucleus",)),
        (replace(TASK, nucleus="empty"), ("nucleus",)),
        (replace(TASK, queues=("oslo", "bergen")), ("queues", 1)),
        (replace(TASK, share="atlsa"), ("share",)),
        (replace(TASK, brokerage="lottery"), ("brokerage",)),
        (replace(TASK, inputs=(InputFile(name="a", size=1, replicas=("oslo-disk", "x")),)), ("inputs", 0, "replicas", 1)),
        (replace(TASK, inputs=(InputPattern(storages=("x",), glob="*"),)), ("inputs", 0, "storages", 0)),
        (replace(TASK, inputs=(INPUT, replace(INPUT, size=2))), ("inputs", 1, "name")),
        (replace(TASK, inputs=(replace(INPUT, replicas=()),)), ("inputs", 0, "replicas")),
        (replace(TASK, outputs=(), merge=MergeSpec(command=("m",), outputs=("b",))), ("merge",)),
        (replace(TASK, merge=MergeSpec(command=("m",), outputs=("b", "b"))), ("merge", "outputs", 1)),
        (replace(TASK, command=()), ("outputs",)),
        (replace(TASK, command=("a", "b\0")), ("command",)),
        (replace(TASK, command=("",)), ("command", 0)),
        (replace(TASK, environment={"A=B": "1"}), ("environment", "A=B")),
        (replace(TASK, environment={"A": "\0"}), ("environment", "A")),
        (replace(TASK, cores=8, max_cores=4), ("max_cores",)),
        (replace(TASK, ip_connectivity="all"), ("ip_connectivity",)),
        (replace(TASK, payload_files={"a": "é" * (MAX_PAYLOAD // 2), "b": "x"}), ("payload_files",)),
        (replace(TASK, payload_files={"stdout": "x"}), ("payload_files", "stdout")),
        (replace(TASK, payload_files={"inputs.txt": "x"}), ("payload_files", "inputs.txt")),
        (replace(TASK, outputs=("a", "tmp")), ("outputs", 1)),
        (replace(TASK, outputs=("a", "inputs/")), ("outputs", 1)),
        (replace(TASK, merge=MergeSpec(command=("m",), outputs=("inputs",))), ("merge", "outputs", 0)),
        (replace(TASK, environment={"A": "é" * 50_000}), ("environment",)),
        (replace(TASK, command=("a", "é" * 50_001)), ("command", 1)),
        (replace(TASK, command=("a" * 100_000,) * 11), ("command",)),
    ],
)  # fmt: skip
def test_a_task_that_cannot_run_is_refused_at_its_field(spec: TaskSpec, path: Path) -> None:
    assert places(check_task(spec, FEDERATION)) == [path]


@pytest.fixture(scope="module")
def many() -> tuple[InputFile, ...]:
    """One input more than a job may have."""
    return tuple(InputFile(name=f"f{n}", size=1, replicas=("lund-disk",)) for n in range(100_001))


def test_a_job_of_too_many_inputs_is_refused(many: tuple[InputFile, ...]) -> None:
    assert places(check_task(replace(TASK, inputs=many), FEDERATION)) == [("inputs",)]


def test_what_is_at_a_bound_is_taken(many: tuple[InputFile, ...]) -> None:
    spec = replace(
        TASK,
        inputs=many,
        files_per_job=2,
        outputs=("stdout", "stderr"),
        command=("a" * 100_000,),
        environment={"A": "a" * 99_998},
    )
    assert check_task(spec, FEDERATION) == []


def test_payload_files_up_to_a_mebibyte_together_are_taken() -> None:
    spec = replace(TASK, payload_files={"a": "x" * (MAX_PAYLOAD - 1), "b": "y"})
    assert check_task(spec, FEDERATION) == []


def test_a_share_of_a_vo_is_for_its_members() -> None:
    spec = replace(TASK, share="top")
    assert check_task(spec, FEDERATION, Identity(name="ada", vo="atlas")) == []
    assert check_task(spec, FEDERATION, Identity(name="bob", vo="belle")) == [
        (("share",), "'top' belongs to the VO atlas; give one of default")
    ]


def test_every_fault_of_a_task_is_told() -> None:
    spec = replace(TASK, nucleus="x", queues=("y",), share="z", command=())
    assert places(check_task(spec, FEDERATION)) == [("outputs",), ("nucleus",), ("queues", 0), ("share",)]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"conda": "envs/rna"}, ("conda",)),
        ({"conda": "/opt/rna:/usr"}, ("conda",)),
        ({"conda": "/opt/rna", "container_name": "debian:12"}, ("conda",)),
        ({"modules": ("gcc",), "container_name": "debian:12"}, ("modules",)),
        ({"modules": ("gcc",), "command": (), "outputs": (), "merge": None}, ("modules",)),
    ],
)
def test_environments_that_cannot_be_entered_are_refused(fields: dict[str, Any], place: Path) -> None:
    assert places(check_task(replace(TASK, **fields), FEDERATION)) == [place]


def test_faults_are_bounded_however_many_a_stranger_makes() -> None:
    names = tuple(f"q{n}" for n in range(MOST_FAULTS + 500))
    assert len(check_task(replace(TASK, queues=names), FEDERATION)) == MOST_FAULTS


def test_a_long_chain_of_parents_is_followed_once() -> None:
    shares = tuple(GlobalShare(name=f"s{n}", parent=f"s{n - 1}" if n else "") for n in range(20_000))
    assert check_federation(replace(FEDERATION, shares=shares)) == []
    (found,) = check_federation(
        replace(FEDERATION, shares=(replace(shares[0], parent="s19999"), *shares[1:]))
    )
    assert found[1].endswith("under ... under s0 is a circle; give no parent to the topmost")


def test_p5_pools_that_do_not_exist_and_p7_both_kinds_at_once_are_refused() -> None:
    director = DirectorConstants(
        submit_pools={"day": SubmitPool(min_threads_in_pool=9, max_threads_in_pool=8)},
        default_submit_pools=("dya",),
    )
    assert check_federation(replace(FEDERATION, director=director)) == [
        (("director", "default_submit_pools", 0), "there is no submit pool 'dya'; did you mean day?"),
        (
            ("director", "submit_pools", "day", "min_threads_in_pool"),
            "9 is above the max_threads_in_pool of 8; give at most 8",
        ),
    ]
    asked = replace(TASK, submit_pools=("default", "night"))
    assert places(check_task(asked, FEDERATION)) == [("submit_pools", 1)]
    both = replace(TASK, private_pilots=True, force_generic=True)
    assert places(check_task(both, FEDERATION)) == [("force_generic",)]


@pytest.mark.parametrize(
    "rank",
    ["__import__('os')", "free.real", "2 ** 999", "free if 1 else 2", "9" * 400, "nonsense", "max()", "1 +"],
)
def test_p6_a_rank_that_is_no_arithmetic_over_what_servers_tell_is_refused(rank: str) -> None:
    element = ComputingElement(rank=rank, servers=(Server(name="a"), Server(name="a")))
    wrong = replace(FEDERATION, queues=(replace(FEDERATION.queues[0], computing_element=element),))
    at = ("queues", 0, "computing_element")
    assert places(check_federation(wrong)) == [(*at, "servers", 1), (*at, "rank")]
