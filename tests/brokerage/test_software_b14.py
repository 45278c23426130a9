"""B14: software, containers and hardware, case by case of the text."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.flow.calls.work import what_if
from pilotage.flow.calls.work.what_if import Changes
from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.records.federation import Hardware, Tag
from pilotage.model.records.requirements import Requirements
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.values.software import Architecture, ArchitectureError, parse_architecture
from pilotage.policies.brokerage.engine.spec_table import SpecTable
from pilotage.testing import NOW, federation, queue, task, world
from pilotage.testing.choices import only_choice, refusal, refused, refused_in

PLATFORM = "x86_64-slc6-gcc62-opt"
ATHENA: dict[str, Any] = {"sw_project": "Athena", "sw_version": "21.0.38", "architecture": PLATFORM}
TAG = Tag(cmtconfig=PLATFORM, project="Athena", release="21.0.38")
IMAGES = Tag(container_name="athena:21.0.38", sources=("/images/athena-21", "docker://hub/athena:21"))


def _takes(offer: dict[str, Any], **spec: Any) -> bool:
    house = federation([queue("AUTO", **{"releases": ("AUTO",), **offer})])
    return refused(house, "B14", **spec) == set()


@pytest.mark.parametrize(
    ("offer", "takes"),
    [
        ({}, False),
        ({"cvmfs": ("atlas",), "cmtconfigs": (PLATFORM,)}, True),
        ({"cvmfs": ("any",), "cmtconfigs": (PLATFORM,)}, True),
        ({"cvmfs": ("nightlies",), "cmtconfigs": (PLATFORM,)}, False),
        ({"cvmfs": (), "cmtconfigs": (PLATFORM,)}, False),
        ({"cvmfs": ("atlas",), "cmtconfigs": ("x86_64-centos7-gcc8-opt",)}, False),
        ({"cvmfs": ("atlas",), "containers": ("any",)}, True),
        ({"cvmfs": ("atlas",), "containers": ("/cvmfs",)}, True),
        ({"cvmfs": ("atlas",), "containers": ("/cvmfs/images",)}, False),
        ({"containers": ("any",), "tags": (TAG,)}, True),
        ({"containers": ("/cvmfs",), "tags": (TAG,)}, False),
        ({"tags": (TAG,)}, False),
        ({"containers": ("any",), "tags": (replace(TAG, cmtconfig="x86_64-el9-gcc13-opt"),)}, False),
        ({"containers": ("any",), "tags": (replace(TAG, project="AthDerivation"),)}, False),
        ({"containers": ("any",), "tags": (replace(TAG, release="21.0.39"),)}, False),
        ({"releases": ("ANY",)}, True),
    ],
)
def test_b14_releases(offer: dict[str, Any], takes: bool) -> None:
    assert _takes(offer, **ATHENA) is takes


def test_b14_nightlies_need_their_own_repository() -> None:
    platforms = {"cmtconfigs": (PLATFORM,)}
    assert _takes({"cvmfs": ("nightlies",), **platforms}, nightlies=True, **ATHENA)
    assert _takes({"cvmfs": ("any",), **platforms}, nightlies=True, **ATHENA)
    assert not _takes({"cvmfs": ("atlas",), **platforms}, nightlies=True, **ATHENA)


def test_b14_a_platform_alone_needs_no_repository() -> None:
    assert _takes({"cmtconfigs": (PLATFORM,)}, architecture=PLATFORM)
    assert _takes({"containers": ("/cvmfs",)}, architecture=PLATFORM)
    assert not _takes({"cvmfs": ("atlas",)}, architecture=PLATFORM)
    assert not _takes({}, architecture=f"{PLATFORM}@el9#x86_64")


def test_b14_work_that_asks_for_no_software_runs_anywhere() -> None:
    assert _takes({})
    assert _takes({"releases": ()})


def test_b14_a_queue_may_list_its_releases_by_name() -> None:
    assert _takes({"releases": ("Athena-21.0.38",)}, **ATHENA)
    assert _takes({"releases": ("21.0.38",)}, **ATHENA)
    assert _takes({"releases": ("Athena",)}, sw_project="Athena")
    assert not _takes({"releases": ("Athena-21.0.39", "AthDerivation-21.0.38")}, **ATHENA)
    assert not _takes({"releases": ()}, **ATHENA)
    assert _takes({"releases": ("AUTO", "Athena-21.0.38")}, **ATHENA)


@pytest.mark.parametrize(
    ("offer", "takes"),
    [
        ({}, False),
        ({"containers": ("any",)}, True),
        ({"containers": ("/cvmfs",)}, True),
        ({"containers": ("docker://hub/",)}, True),
        ({"containers": ("docker://other/",)}, False),
        ({"containers": ("hub",)}, False),
        ({"tags": (replace(IMAGES, container_name="docker://hub/fit:1"),)}, False),
        ({"releases": ("ANY",)}, True),
        ({"cvmfs": ("any",), "cmtconfigs": (PLATFORM,)}, False),
    ],
)
def test_b14_containers(offer: dict[str, Any], takes: bool) -> None:
    assert _takes(offer, container_name="docker://hub/fit:1") is takes


def test_b14_a_container_name_stands_for_its_source_in_the_all_entry() -> None:
    house = federation([queue("AUTO", releases=("AUTO",), containers=("/images/",))])
    known = replace(house, container_sources={"fit": ("docker://hub/fit", "/images/fit.sif")})
    other = replace(house, container_sources={"fit": ("docker://hub/fit",), "fat": ("/images/fat",)})
    assert refused(house, "B14", container_name="fit") == {"AUTO"}
    assert refused(known, "B14", container_name="fit") == set()
    assert refused(other, "B14", container_name="fit") == {"AUTO"}


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("athena:21.0.38", True),
        ("docker://hub/athena:21", True),
        ("/images/athena-21", True),
        ("/images/athena", False),
        ("athena", False),
    ],
)
def test_b14_only_tags_takes_the_name_or_a_source_of_a_tag(name: str, takes: bool) -> None:
    offer = {"tags": (IMAGES,), "containers": ("any", "/images/", "athena")}
    assert _takes(offer, container_name=name, only_tags=True) is takes


def test_b14_a_container_brings_its_own_release() -> None:
    assert _takes({"containers": ("any",)}, container_name="fit", **ATHENA)


MERGE = MergeSpec(command=("merge",), outputs=("merged",))
X86 = Hardware(type="cpu", arch=("x86_64",))


@pytest.mark.parametrize(
    ("attributes", "asked", "takes"),
    [
        ({"arch": ("x86_64",)}, "#x86_64", True),
        ({"arch": ("",)}, "#x86_64", True),
        ({"arch": ("any",)}, "#x86_64", True),
        ({"arch": ("x86_64", "excl")}, "#x86_64", True),
        ({"arch": ("arm64",)}, "#x86_64", False),
        ({"arch": ("x86_64",)}, "", True),
        ({"arch": ("x86_64", "excl")}, "", False),
        ({"arch": ("x86_64",), "vendor": ("intel", "excl")}, "#x86_64-excl", False),
        ({"arch": ("any", "excl")}, "#excl", False),
        ({"arch": ("any", "excl")}, "", False),
        ({"arch": ("any", "excl")}, "#arm64", True),
        ({"arch": ("arm64", "excl")}, "#x86_64", False),
        ({"arch": ("x86_64",), "vendor": ("intel",)}, "#x86_64", True),
        ({"arch": ("x86_64",), "vendor": ("intel", "excl")}, "#x86_64", False),
        ({"arch": ("x86_64",), "vendor": ("intel", "excl")}, "#x86_64-intel", True),
        ({"arch": ("x86_64",), "vendor": ("intel",)}, "#x86_64-amd", False),
        ({"arch": ("x86_64",), "vendor": ("intel", "amd")}, "#x86_64-amd", True),
        ({"arch": ("x86_64",)}, "#x86_64-intel", False),
        ({"arch": ("x86_64",), "instr": ("avx2",)}, "#x86_64-*-avx2", True),
        ({"arch": ("x86_64",), "instr": ("avx2",)}, "#x86_64-*-avx512", False),
        ({"arch": ("x86_64",), "instr": ("avx2", "excl")}, "#x86_64", False),
    ],
)
def test_b14_processors(attributes: dict[str, Any], asked: str, takes: bool) -> None:
    assert _takes({"architectures": (Hardware(type="cpu", **attributes),)}, architecture=asked) is takes


@pytest.mark.parametrize(
    ("attributes", "asked", "takes"),
    [
        ({"vendor": ("nvidia",)}, "&nvidia", True),
        ({"vendor": ("nvidia",)}, "", True),
        ({"vendor": ("nvidia", "excl")}, "", False),
        ({"vendor": ("nvidia", "excl")}, "#x86_64", False),
        ({"vendor": ("nvidia", "excl")}, "&nvidia", True),
        ({"vendor": ("nvidia",)}, "&amd", False),
        ({"vendor": ("nvidia",)}, "&nvidia-tesla-v100", False),
        ({"vendor": ("nvidia",), "model": ("tesla-v100", "a100")}, "&nvidia-tesla-v100", True),
        ({"vendor": ("nvidia",), "model": ("any",)}, "&nvidia-a100", True),
        ({"vendor": ("nvidia",), "model": ("a100", "excl")}, "&nvidia", False),
        ({"vendor": ("nvidia",)}, "&*", True),
    ],
)
def test_b14_accelerators(attributes: dict[str, Any], asked: str, takes: bool) -> None:
    offer = {"architectures": (X86, Hardware(type="gpu", **attributes))}
    assert _takes(offer, architecture=asked) is takes


def test_b14_hardware_that_is_asked_for_must_be_published() -> None:
    assert not _takes({"architectures": (X86,)}, architecture="&nvidia")
    assert not _takes({"architectures": (X86,)}, architecture="&*")
    assert not _takes({"releases": ("ANY",), "architectures": (X86,)}, architecture="#arm64&nvidia")


def test_b14_hardware_that_a_queue_says_nothing_of_is_unknown_and_passes() -> None:
    assert _takes({}, architecture="#x86_64")
    assert _takes({"releases": ("ANY",), "gpus": 1}, architecture="#arm64&nvidia")


@pytest.mark.parametrize("asked", ["&nvidia-a100", "&nvidia", "&*", f"{PLATFORM}#x86_64&nvidia"])
@pytest.mark.parametrize("releases", [("ANY",), ("AUTO",)])
def test_b14_a_gpu_that_the_architecture_names_is_one_gpu(asked: str, releases: tuple[str, ...]) -> None:
    """Where a queue has none the job would be activated and never start."""
    offer: dict[str, Any] = {"releases": releases, "cmtconfigs": (PLATFORM,)}
    accelerators = (X86, Hardware(type="gpu", vendor=("nvidia",), model=("any",)))
    house = federation(
        [
            queue("CPU", **offer),
            queue("CPU2", **offer, architectures=(X86,)),
            queue("ONE", **offer, gpus=1),
            queue("LISTED", **offer, architectures=accelerators),
        ]
    )
    assert refused(house, "B14", architecture=asked) == {"CPU", "CPU2"}
    assert refused(house, "B14", architecture=asked, gpus=1) == {"CPU", "CPU2"}
    assert refused(house, "B14", architecture=asked, gpus=2) == {"CPU", "CPU2", "ONE", "LISTED"}
    assert refused(house, "B14", architecture=asked, kind="merge", merge=MERGE) == set()


def test_b14_explain_names_the_part_of_the_architecture_that_asks_for_a_gpu() -> None:
    house = federation([queue("CPU")])
    asked = task(architecture="&nvidia-a100")
    text = lines(explain(only_choice(world(house, asked))))
    assert text[0] == "task 1, job 1: the only queue considered cannot take it"
    assert "GPUs" in text[1]
    assert "need 1 GPU, best 0" in text[1]
    assert text[1].endswith("you: leave out gpus, and what follows & in architecture")


@pytest.mark.parametrize("gpus", [0, 1, 3])
def test_b14_task_queues_and_their_pilots_ask_for_the_gpus_that_checks_ask_for(gpus: int) -> None:
    spec = task(architecture="&nvidia", gpus=gpus).spec
    assert Requirements.of(spec, task().owner).gpus == max(gpus, 1)
    assert SpecTable().rows([spec]).numbers["gpus"].tolist() == [max(gpus, 1)]


def test_b14_what_if_opens_a_queue_by_the_architecture_or_by_its_gpus() -> None:
    house = federation([queue("CPU")])
    state = world(house, task(architecture="&nvidia-a100"))
    for change in (Changes(task={"architecture": ""}), Changes(queues={"CPU": {"gpus": 1}})):
        found = what_if.decide(state, change)
        assert (found.opened, found.closed) == (("CPU",), ())


def test_b14_a_platform_asks_for_its_processor_also_at_any() -> None:
    arm = Hardware(type="cpu", arch=("aarch64",))
    for releases in (("AUTO",), ("ANY",)):
        offer = {"releases": releases, "architectures": (arm,), "cmtconfigs": (PLATFORM,)}
        assert not _takes(offer, architecture=PLATFORM)
        assert _takes(offer, architecture="aarch64-el9-gcc13-opt" if releases == ("ANY",) else "")
    assert _takes({"releases": ("ANY",), "architectures": (X86,)}, architecture=PLATFORM)
    assert not _takes({"releases": ("ANY",), "architectures": (arm,)}, architecture=f"{PLATFORM}#*-intel")


def test_b14_a_base_platform_asks_for_containers() -> None:
    asked = f"{PLATFORM}@centos7"
    assert not _takes({"cmtconfigs": (PLATFORM,)}, architecture=asked)
    assert _takes({"cmtconfigs": (PLATFORM,), "containers": ("any",)}, architecture=asked)
    assert _takes({"cmtconfigs": (PLATFORM,), "containers": ("/cvmfs",)}, architecture=asked)
    assert _takes({"releases": ("ANY",)}, architecture=asked)


def test_b14_one_of_several_kinds_of_nodes_is_enough() -> None:
    offer = {"architectures": (X86, Hardware(type="cpu", arch=("arm64", "excl")))}
    assert _takes(offer, architecture="#arm64")
    assert _takes(offer, architecture="#x86_64")
    assert not _takes(offer, architecture="#riscv64")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", Architecture()),
        (PLATFORM, Architecture(platform=PLATFORM)),
        (f"{PLATFORM}@centos7", Architecture(platform=PLATFORM, base_platform="centos7")),
        ("#x86_64", Architecture(cpu=(("arch", "x86_64"),))),
        (
            "p@b#x86_64-intel-avx2&nvidia-a-100",
            Architecture(
                platform="p",
                base_platform="b",
                cpu=(("arch", "x86_64"), ("vendor", "intel"), ("instr", "avx2")),
                gpu=(("vendor", "nvidia"), ("model", "a-100")),
            ),
        ),
        ("#*-amd", Architecture(cpu=(("vendor", "amd"),))),
        ("p&nvidia", Architecture(platform="p", gpu=(("vendor", "nvidia"),))),
    ],
)
def test_b14_an_architecture_is_taken_apart(text: str, parts: Architecture) -> None:
    assert parse_architecture(text) == parts


@pytest.mark.parametrize("text", ["#", "p@", "p&", "&nvidia#x86_64", "p p", "p#a#b", "p@b@c"])
def test_b14_what_is_no_architecture_is_an_error(text: str) -> None:
    with pytest.raises(ArchitectureError, match="is not an architecture; give platform@base"):
        parse_architecture(text)


def test_b14_says_what_was_asked_and_what_is_there() -> None:
    offer: dict[str, Any] = {"architectures": (Hardware(type="gpu", vendor=("nvidia", "excl")),)}
    house = federation([queue(releases=("AUTO",), **offer)])
    found = refusal(only_choice(world(house, task())), "B14")
    assert (found.name, found.need, found.have) == (
        "hardware",
        "no hardware in particular",
        ("gpu nvidia,excl",),
    )
    release = next(
        item for item in only_choice(world(house, task(**ATHENA))).refusals if item.name == "software"
    )
    assert (release.need, release.have, release.mend) == (f"Athena 21.0.38 {PLATFORM}", ("AUTO",), "user")


NODES = federation([queue(name, gpus=1) for name in ("BARE", "FULL")])


def found_on_nodes(need: str, ago: float = 10.0, at: str = "BARE") -> CircuitBreaker:
    """What pilots found of a queue's nodes; its breaker is open for a minute."""
    return CircuitBreaker(
        kind="empty-pilots",
        place=(at, need),
        since=NOW - ago,
        until=NOW - ago + 60,
        failures=2,
        error="no container runtime (3 nodes checked)",
    )


@pytest.mark.parametrize(
    ("need", "spec", "expected"),
    [
        ("containers", {"container_name": "docker://alpine"}, {"BARE"}),
        ("containers", {"gpus": 1}, set()),
        ("GPUs", {"gpus": 1}, {"BARE"}),
        ("GPUs", {"container_name": "docker://alpine"}, set()),
    ],
)
def test_b14_what_pilots_found_missing_on_all_nodes_refuses_the_queue(
    need: str, spec: dict[str, Any], expected: set[str]
) -> None:
    assert refused_in(world(NODES, task(**spec), lacking_nodes=(found_on_nodes(need),)), "B14") == expected


def test_b14_a_refusal_says_what_pilots_found_and_what_to_do() -> None:
    state = world(
        NODES,
        task(container_name="docker://alpine", queues=("BARE",)),
        lacking_nodes=(found_on_nodes("containers"),),
    )
    told = "\n".join(lines(explain(only_choice(state))))
    assert (
        "BARE has no container runtime (3 nodes checked): install Apptainer, then pilotage breakers lift "
        "BARE; or the owner removes container_name" in told
    )


@pytest.mark.parametrize(("ago", "refuses"), [(59.0, True), (60.0, False)])
def test_b14_once_the_breaker_is_half_open_jobs_may_come_and_bring_a_probe(ago: float, refuses: bool) -> None:
    found = (found_on_nodes("containers", ago), found_on_nodes("containers", at="a queue that has gone"))
    state = world(NODES, task(container_name="docker://alpine"), lacking_nodes=found)
    assert (refused_in(state, "B14") == {"BARE"}) is refuses
