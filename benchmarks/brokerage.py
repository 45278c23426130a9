"""Pairs of task and queue that the production brokerage decides and stores in a second; saying why."""

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.moves import PATIENCE
from pilotage.model.documents.world import JobCount, LinkCount, QueueReport, World
from pilotage.model.records.federation import (
    BrokerageConstants,
    ComputingElement,
    Federation,
    GlobalShare,
    Hardware,
    Link,
    Queue,
    QueueStatus,
    Site,
    Storage,
    Tag,
)
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, Job, JobKind, Replica, Task, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.production import Production
from pilotage.store import Store

NOW = 1_700_000_000.0
ROUNDS = 5
COUNTED = (
    JobState.ACTIVATED,
    JobState.ASSIGNED,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.TRANSFERRING,
)


PLATFORMS = ("x86_64-el9-gcc13-opt", "x86_64-centos7-gcc11-opt", "aarch64-el9-gcc13-opt")
FAIRSHARE_POLICIES = ("", "", "", "type=evgensimul:100%,type=any:0%", "priority<200:0%", "gshare=simul.*:50%")
EVENT_SERVICE: tuple[Literal["std", "es", "eshigh", "all"], ...] = (
    "all",
    "all",
    "std",
    "std",
    "es",
    "eshigh",
)
ARCHITECTURES = (
    (),
    (Hardware(type="cpu", arch=("x86_64",), vendor=("intel", "amd")),),
    (Hardware(type="cpu", arch=("aarch64",)), Hardware(type="gpu", vendor=("nvidia", "excl"))),
)


def figures() -> dict[str, float]:
    """Pairs a second on one core, all checks and weights, for federations of three sizes; and stored.

    ``growth_x10_queues`` is how many times as long ten times the queues take, ``growth_x10_tasks`` ten times
    the tasks; ``pairs_per_s_distinct`` is the worst case: each task and each queue is unlike any other.
    """
    seconds = {size: decide_seconds(mixed_world(*size, seed=1)) for size in SIZES}
    return {
        **{
            f"pairs_per_s_{tasks}x{queues}": tasks * queues / seconds[tasks, queues]
            for tasks, queues in SIZES
        },
        "growth_x10_queues": seconds[1000, 10_000] / seconds[1000, 1000],
        "growth_x10_tasks": seconds[1000, 1000] / seconds[100, 1000],
        "pairs_per_s_distinct": 1e6 / decide_seconds(distinct_world(1000, 1000)),
        "stored_pairs_per_s": stored_pairs_per_second(1000, 1000),
        "explain_10k_queues_s": explain_seconds(10_000),
    }


SIZES = ((1000, 100), (1000, 1000), (100, 1000), (1000, 10_000))


def decide_seconds(world: World) -> float:
    """The best of some rounds, in CPU time, of whole decisions from a world to moves and reasons.

    The plugin is kept from round to round, as the server keeps it from pass to pass.
    """
    plugin = Production()
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        decision = plugin.decide(world)
        seconds.append(time.process_time() - started)
        if len(decision.choices) != len(world.tasks):
            raise RuntimeError(f"{len(decision.choices)} choices for {len(world.tasks)} tasks")
        del decision
    return min(seconds)


def stored_pairs_per_second(tasks: int, queues: int) -> float:
    """Pairs that are decided and whose reasons, all of them, are committed to SQLite in a second of CPU time.

    The reasons alone: what it takes to move jobs is measured by the cycle.
    """
    world, plugin = mixed_world(tasks, queues, seed=1), Production()
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    store = Store.open(f"sqlite:///{place}/store.sqlite")
    seconds = []
    try:
        for turn in range(ROUNDS):
            later = replace(world, time=world.time + 3600 * turn)
            started = time.process_time()
            store.commit(replace(plugin.decide(later), changes=()), "bench")
            seconds.append(time.process_time() - started)
            if not store.queries.task_choices(world.tasks[0].id):
                raise RuntimeError("no reasons were stored: this figure would mean nothing")
    finally:
        store.close()
        shutil.rmtree(place, ignore_errors=True)
    return tasks * queues / min(seconds)


def explain_seconds(queues: int) -> float:
    """CPU time from stored reasons to the explanation as text: the best of some rounds, of the worst task."""
    world = mixed_world(20, queues, seed=2)
    with_store = Store.open("sqlite:///:memory:")
    try:
        with_store.commit(replace(Production().decide(world), changes=()), "bench")
        return max(_explain_seconds(with_store, task.id) for task in world.tasks)
    finally:
        with_store.close()


def _explain_seconds(store: Store, task: int) -> float:
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        (choice,) = store.queries.task_choices(task)
        lines(explain(choice))
        seconds.append(time.process_time() - started)
    return min(seconds)


def distinct_world(tasks: int, queues: int) -> World:
    """Tasks and queues that are all unlike each other: no check has two equal needs, or two equal queues."""
    mixed = mixed_world(tasks, queues, seed=3)
    random = np.random.default_rng(3)
    work = tuple(
        replace(
            task,
            owner=Identity(name=f"user-{task.id}", group=f"group-{task.id}"),
            spec=replace(
                task.spec,
                cores=1 + task.id,
                sw_version=f"25.0.{task.id}",
                architecture=f"x86_64-el9-gcc13-opt#x86_64-intel-{task.id}",
                container_name=f"image-{task.id}",
                ip_connectivity=f"http#stack-{task.id}",
            ),
        )
        for task in mixed.tasks
    )
    declared = tuple(
        replace(
            queue,
            cores=2 * (number + 1),
            max_memory=float(random.uniform(1e3, 1e6)),
            max_workdir=float(random.uniform(1e3, 1e6)),
            max_walltime=float(random.uniform(1e4, 1e6)),
            connectivity=f"full#stack-{number}",
            fairshare_policy=f"group=group-{number}:0%,priority<{number}:0%",
            cmtconfigs=(*queue.cmtconfigs, f"platform-{number}"),
        )
        for number, queue in enumerate(mixed.federation.queues)
    )
    return replace(mixed, tasks=work, federation=replace(mixed.federation, queues=declared))


def mixed_world(tasks: int, queues: int, seed: int) -> World:
    """Tasks that all differ and queues of every kind: each rule refuses some pairs, most queues fit some."""
    random = np.random.default_rng(seed)
    federation = _federation(queues, random)
    inputs = [f"input.{number}" for number in range(tasks // 2)]
    storages = [storage.name for storage in federation.storages]
    work = [_task(number, federation, random) for number in range(1, tasks + 1)]
    return World(
        time=NOW,
        seed=seed,
        federation=federation,
        tasks=tuple(work),
        jobs=tuple(_job(task, inputs, random) for task in work),
        files=tuple(File(name=name, size=int(random.uniform(1e8, 2e10)), checksum="") for name in inputs),
        replicas=tuple(
            Replica(file=name, storage=str(storage))
            for name in inputs
            for storage in random.choice(storages, size=min(3, len(storages)), replace=False)
        ),
        job_counts=_job_counts(federation, random),
        link_counts=_link_counts(federation, random),
        queue_reports=tuple(
            QueueReport(
                queue=queue.name,
                last_pilot=NOW - float(random.uniform(0, 12_000)),
                last_start=NOW - float(random.uniform(0, 9000)),
                batch_workers=int(random.integers(0, 40)),
                disk_io=float(random.uniform(0, 1000)),
            )
            for queue in federation.queues
        ),
    )


def _federation(queues: int, random: np.random.Generator) -> Federation:
    sites = max(2, queues // 4)
    names = [f"SITE-{number:04}" for number in range(sites)]
    nuclei = names[: min(20, sites // 2)]
    return Federation(
        name="mixed",
        sites=tuple(Site(name=name, nucleus=name in nuclei) for name in names),
        storages=tuple(
            Storage(
                name=f"{name}-DISK",
                site=name,
                url=f"file:///{name}",
                free=float(random.uniform(100, 5000)),
                blacklisted=("write_wan",) if random.random() < 0.03 else (),
            )
            for name in names
        ),
        queues=tuple(_queue(number, names[number % sites], random) for number in range(queues)),
        links=tuple(
            Link(
                source=source,
                destination=nucleus,
                closeness=-1 if random.random() < 0.02 else float(random.integers(0, 11)),
                throughput_1h=float(random.uniform(0, 300)) if random.random() < 0.5 else None,
            )
            for nucleus in nuclei
            for source in names
            if source != nucleus
        ),
        shares=tuple(
            GlobalShare(name=name, parent=parent, target=target)
            for name, parent, target in (
                ("production", "", 80),
                ("simulation", "production", 3),
                ("derivation", "production", 1),
                ("default", "", 20),
            )
        ),
        container_sources={"athena": ("/cvmfs/images/athena",), "fit": ("docker://registry/fit",)},
        brokerage=BrokerageConstants(max_diskio_default=800, nqueue_limit_site_by_share={"simulation": 50}),
    )


def _queue(number: int, site: str, random: np.random.Generator) -> Queue:
    statuses: list[QueueStatus] = ["online", "online", "online", "standby", "offline", "brokeroff"]
    kind = "TEST" if random.random() < 0.02 else "PROD"
    return Queue(
        name=f"{site}-{kind}-{number:05}",
        site=site,
        storage=f"{site}-DISK",
        status=statuses[int(random.integers(len(statuses)))],
        cores=int(random.choice([0, 1, 1, 8, 16])),
        core_power=float(random.uniform(8, 24)),
        max_memory=float(random.choice([0, 2000, 4000, 16_000, 32_000, 64_000])),
        max_workdir=float(random.choice([0, 10_000, 20_000, 200_000])),
        max_walltime=float(random.choice([0, 43_200, 86_400, 172_800, 345_600])),
        direct_access=bool(random.random() < 0.5),
        connectivity=str(random.choice(["full", "full#IPv4", "http", "none"])),
        fairshare_policy=str(random.choice(FAIRSHARE_POLICIES)),
        event_service=EVENT_SERVICE[int(random.integers(len(EVENT_SERVICE)))],
        **_software(random),
        num_slots=int(random.integers(10, 2000)) if random.random() < 0.5 else None,
        computing_element=ComputingElement() if random.random() < 0.8 else None,
    )


def _software(random: np.random.Generator) -> dict[str, Any]:
    """One of some 100 descriptions, most of which have most of what is asked for."""
    platforms = [str(platform) for platform in PLATFORMS if random.random() < 0.9]
    containers = [name for name in ("any", "/cvmfs", "docker://registry") if random.random() < 0.5]
    return {
        "releases": ("ANY",) if random.random() < 0.3 else ("AUTO",),
        "cmtconfigs": tuple(platforms),
        "containers": tuple(containers),
        "cvmfs": ("atlas",) if random.random() < 0.8 else ("atlas", "nightlies"),
        "architectures": ARCHITECTURES[int(random.integers(len(ARCHITECTURES)))],
        "tags": tuple(Tag(cmtconfig=PLATFORMS[0], project="Athena", release=f"25.0.{n}") for n in range(20)),
    }


def _task(number: int, federation: Federation, random: np.random.Generator) -> Task:
    nuclei = ["", *(site.name for site in federation.sites if site.nucleus)]
    spec = TaskSpec(
        name=f"task-{number}",
        nucleus=str(random.choice(nuclei)),
        cores=int(random.choice([1, 1, 8])),
        ram=float(random.uniform(500, 4000)),
        cpu_time=float(random.uniform(100, 20_000)),
        events_per_job=int(random.integers(1, 100)),
        work_disk=float(random.uniform(0, 5000)),
        out_disk=float(random.uniform(0, 10)),
        io_intensity=float(random.uniform(0, 400)),
        disk_io=float(random.uniform(0, 1000)),
        direct_access_only=bool(random.random() < 0.1),
        ip_connectivity=str(random.choice(["", "none", "http", "full#IPv4"])),
        architecture=str(random.choice(["", "", *PLATFORMS])) + str(random.choice(["", "", "#x86_64-intel"])),
        sw_project="Athena",
        sw_version=f"25.0.{int(random.integers(20))}",
        container_name=str(random.choice(["", "", "", "athena", "fit"])),
        event_service=bool(random.random() < 0.1),
        processing_type=str(random.choice(["evgen", "simul", "reco", "merge"])),
        share=str(random.choice(["simulation", "derivation", "default"])),
        outputs=("out.root",),
    )
    return Task(
        id=number, spec=spec, owner=Identity(name="bench"), state=TaskState.RUNNING, created=NOW, since=NOW
    )


def _job(task: Task, inputs: list[str], random: np.random.Generator) -> Job:
    kinds: list[JobKind] = ["normal", "normal", "normal", "scout", "merge"]
    reads = (str(random.choice(inputs)),) if random.random() < 0.5 else ()
    return Job(
        id=task.id,
        task=task.id,
        kind=kinds[int(random.integers(len(kinds)))],
        share=task.spec.share,
        priority=int(random.integers(100, 1100)),
        requirements="",
        state=JobState.DEFINED,
        attempt=1,
        since=NOW - PATIENCE,
        created=NOW - PATIENCE,
        inputs=reads,
    )


def _job_counts(federation: Federation, random: np.random.Generator) -> tuple[JobCount, ...]:
    return tuple(
        JobCount(queue=queue.name, share="default", state=state, jobs=int(random.integers(0, 200)))
        for queue in federation.queues
        for state in COUNTED
    )


def _link_counts(federation: Federation, random: np.random.Generator) -> tuple[LinkCount, ...]:
    storages = [storage.name for storage in federation.storages]
    nuclei = [site.name for site in federation.sites if site.nucleus]
    return tuple(
        LinkCount(source=source, destination=f"{nucleus}-DISK", files=int(random.integers(0, 160)))
        for nucleus in nuclei
        for source in storages
        if random.random() < 0.3
    )
