"""Checks across fields: references must exist, limits must agree, names must be unique."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from itertools import chain, islice
from typing import Any, NamedTuple

from pilotage import request_budget
from pilotage.federation import classads
from pilotage.federation.brokerage_fields import brokerages, unread_fields
from pilotage.federation.destination_checks import place_faults
from pilotage.federation.faults import Fault, Path, explained, repeated
from pilotage.federation.messages import nearest
from pilotage.federation.output_datasets import output_dataset_faults
from pilotage.federation.task_checks import task_faults
from pilotage.model.records.advertisements import Advertisement
from pilotage.model.records.federation import ComputingElement, Federation, GlobalShare, Queue
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.model.rules.folders import others_files
from pilotage.model.rules.stations import known_stations
from pilotage.model.rules.transfer_shares import declared_sub_shares
from pilotage.model.values import fairshare
from pilotage.model.values.entry_point_groups import BROKERAGES
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output
from pilotage.model.values.ranking import RankError, rank


def check_task(
    spec: TaskSpec,
    federation: Federation,
    owner: Identity | None = None,
    ads: Iterable[Advertisement] = (),
) -> list[tuple[Path, str]]:
    """Return why a task cannot run in a federation: each place in the task, and its fault.

    With an ``owner``, their VO must own the share. The ``ads`` of sites add further stations (M2).
    """
    faults = chain(
        task_faults(spec),
        _references(spec, federation, owner),
        _stations(spec, federation, ads),
        unread_fields(spec, federation, owner),
        output_dataset_faults(spec, federation, owner),
        place_faults(spec, federation, owner),
    )
    return [(fault.path, fault.text) for fault in explained(faults)]


def federation_faults(federation: Federation) -> list[Fault]:
    """Return every contradiction in a federation: its place, the fault and the remedy."""
    faults = chain(
        _names(federation),
        _catalogues(federation),
        _places(federation),
        _parents("queues", federation.queues),
        _pseudo_queues(federation.queues),
        _parents("shares", federation.shares),
        *(_limits(at, queue) for at, queue in enumerate(federation.queues)),
        _constants(federation),
        _quotas(federation),
        _pilots(federation),
        _plugins(federation),
        classads.federation_faults(federation),
    )
    return list(islice(faults, request_budget.MOST_FAULTS))


def file_faults(
    files: Sequence[InputFile], federation: Federation, owner: Identity | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the faults of files to register, by place. Each must be at a storage of the federation.

    With an ``owner``, their VO must be allowed to name files there.
    """
    storages = KnownNames("storage", {storage.name for storage in federation.storages})
    for at, file in enumerate(files):
        request_budget.check()
        for fault in (
            *(fault for name in file.replicas for fault in storages.lacks(("replicas",), name)),
            *([] if file.replicas else [Fault(("replicas",), "is empty", "name the storages that hold it")]),
            *(_outputs_are_ours(file)),
        ):
            yield at, fault.text
    if owner:
        yield from others_files(files, federation.storages, owner)


def _outputs_are_ours(file: InputFile) -> Iterator[Fault]:
    if is_output(file.name):
        yield Fault(("name",), f"{file.name!r} is below the folder of outputs", "outputs are known already")


def _names(federation: Federation) -> Iterator[Fault]:
    for kind in ("sites", "storages", "queues", "shares", "catalogues"):
        first: dict[str, int] = {}
        for at, record in enumerate(getattr(federation, kind)):
            if record.name in first:
                message = f"{record.name!r} is the name of {kind}[{first[record.name]}] already"
                yield Fault((kind, at, "name"), message, "give each a name of its own")
            first.setdefault(record.name, at)


def _places(federation: Federation) -> Iterator[Fault]:
    sites = KnownNames("site", {site.name for site in federation.sites})
    storages = KnownNames("storage", {storage.name for storage in federation.storages})
    for at, storage in enumerate(federation.storages):
        yield from sites.lacks(("storages", at, "site"), storage.site)
    for at, queue in enumerate(federation.queues):
        yield from sites.lacks(("queues", at, "site"), queue.site)
        yield from storages.lacks(("queues", at, "storage"), queue.storage)
    first: dict[tuple[str, str], int] = {}
    for at, link in enumerate(federation.links):
        yield from sites.lacks(("links", at, "source"), link.source)
        yield from sites.lacks(("links", at, "destination"), link.destination)
        ends = link.source, link.destination
        if ends in first:
            message = f"the link from {link.source} to {link.destination} is links[{first[ends]}] already"
            yield Fault(("links", at), message, "keep one")
        first.setdefault(ends, at)


def _catalogues(federation: Federation) -> Iterator[Fault]:
    storages = KnownNames("storage", {storage.name for storage in federation.storages})
    for at, catalogue in enumerate(federation.catalogues):
        path: Path = ("catalogues", at)
        if catalogue.name in ("vo", "nobody"):
            yield Fault((*path, "name"), f"{catalogue.name!r} begins scopes of our own", "give another name")
        yield from repeated((*path, "storages"), [mapping.rse for mapping in catalogue.storages])
        for number, mapping in enumerate(catalogue.storages):
            yield from storages.lacks((*path, "storages", number, "storage"), mapping.storage)


class KnownNames(NamedTuple):
    """The names that a reference of one kind may have. Without a near match, a fault lists some of them."""

    kind: str
    names: Collection[str]
    length: int = 10

    def lacks(self, path: Path, name: str) -> Iterator[Fault]:
        """Yield the fault of an unknown name, with the nearest known one."""
        if name not in self.names:
            near = nearest(name, self.names)
            names = ", ".join(sorted(self.names)[: self.length])
            names += ", ..." if len(self.names) > self.length else ""
            remedy = f"did you mean {near[0]}?" if near else f"known: {names}" if names else ""
            yield Fault(path, f"there is no {self.kind} {name!r}", remedy)


def _parents(kind: str, records: Sequence[Queue | GlobalShare]) -> Iterator[Fault]:
    """Yield parents that do not exist and circles of parents, each once."""
    parents = {record.name: record.parent for record in records}
    places = {record.name: at for at, record in enumerate(records)}
    known_names = KnownNames(kind.removesuffix("s"), parents.keys())
    settled: set[str] = set()
    for start in parents:
        name = start
        above: dict[str, None] = {}
        while name in parents and name not in settled and name not in above:
            above[name] = None
            name = parents[name]
        if name in above:
            circle = list(above)[list(above).index(name) :]
            loop = " under ".join([*circle[:10], *(["..."] if len(circle) > 10 else []), name])
            path = (kind, places[name], "parent")
            yield Fault(path, f"{loop} is a circle", "give no parent to the topmost")
        elif name and name not in parents:
            yield from known_names.lacks((kind, places[next(reversed(above))], "parent"), name)
        # Walk each name once: a circle is reported once, and a long chain takes linear time.
        settled.update(above)


def _pseudo_queues(queues: Sequence[Queue]) -> Iterator[Fault]:
    """Yield pseudo-queues of pseudo-queues: it is unclear which queues would share their limits (B2)."""
    parents = {queue.name: queue.parent for queue in queues}
    for at, queue in enumerate(queues):
        if (above := parents.get(queue.parent)) and parents.get(above) != queue.parent:
            message = f"{queue.parent} is a pseudo-queue of {above} itself"
            yield Fault(("queues", at, "parent"), message, f"give {above}")


def _limits(at: int, queue: Queue) -> Iterator[Fault]:
    for name, unit in (("memory", "MB"), ("walltime", "s")):
        least, greatest = getattr(queue, f"min_{name}"), getattr(queue, f"max_{name}")
        if greatest and least > greatest:
            message = f"{least:g} {unit} is above the max_{name} of {greatest:g} {unit}"
            yield Fault(("queues", at, f"min_{name}"), message, f"give at most {greatest:g}")
    try:
        fairshare.parse(queue.fairshare_policy)
    except fairshare.PolicyError as error:
        remedy = "give a list like type=evgen:0%,group=phys.*:100%,priority>800:50%"
        yield Fault(("queues", at, "fairshare_policy"), str(error), remedy)


def _constants(federation: Federation) -> Iterator[Fault]:
    staging = federation.staging
    for name in staging.base_priorities:
        path: Path = ("staging", "base_priorities", name)
        if not name.strip():
            yield Fault(path, "is a priority without a share", "name the share")
        elif staging.share_by == "none" and not name.startswith("_default"):
            yield Fault(path, "is for a share, and share_by is none", "give _default, or a criterion")
        elif name.endswith(("-download", "-upload")) and not staging.sub_shares:
            yield Fault(path, "is for a sub-share, and sub_shares is false", "give the share itself, or true")
    beat, silence = federation.loops.heartbeat, federation.timeouts.heartbeat
    if beat >= silence:
        message = f"a heartbeat every {beat:g} s is never in time for timeouts.heartbeat of {silence:g} s"
        yield Fault(("loops", "heartbeat"), message, f"give less than {silence:g}")


def _quotas(federation: Federation) -> Iterator[Fault]:
    """Yield exceptions without a limit, or with one that their holder cannot have."""
    for at, exception in enumerate(federation.quotas.exceptions):
        path: Path = ("quotas", "exceptions", at)
        if exception.kind == "share" and not exception.actor:
            yield Fault(path, "is for a share", "give its target in shares")
        elif not exception.is_fit:
            message = f"has no limit, or one that a {exception.kind} cannot have"
            yield Fault(path, message, "give tasks, jobs, files, core_hours or transferred")


def _pilots(federation: Federation) -> Iterator[Fault]:
    """Yield unknown submit pools, servers that share a name, and ranks that are no arithmetic (P5, P6)."""
    director = federation.director
    pools = KnownNames("submit pool", director.submit_pools.keys())
    for at, name in enumerate(director.default_submit_pools):
        yield from pools.lacks(("director", "default_submit_pools", at), name)
    for name, pool in director.submit_pools.items():
        if pool.min_threads_in_pool > pool.max_threads_in_pool:
            message = (
                f"{pool.min_threads_in_pool} is above the max_threads_in_pool of {pool.max_threads_in_pool}"
            )
            path: Path = ("director", "submit_pools", name, "min_threads_in_pool")
            yield Fault(path, message, f"give at most {pool.max_threads_in_pool}")
    for at, queue in enumerate(federation.queues):
        if queue.computing_element is not None:
            yield from _servers(("queues", at, "computing_element"), queue.computing_element)
            yield from _credentials(("queues", at, "computing_element"), queue.computing_element)


def _servers(path: Path, element: ComputingElement) -> Iterator[Fault]:
    yield from repeated((*path, "servers"), [server.name for server in element.servers])
    try:
        rank(element.rank or "0", {})
    except RankError as error:
        yield Fault((*path, "rank"), str(error), "free - 2 * waiting is one")


def _credentials(path: Path, element: ComputingElement) -> Iterator[Fault]:
    yield from repeated((*path, "credentials"), [credential.name for credential in element.credentials])
    for at, credential in enumerate(element.credentials):
        if not credential.person and not credential.group:
            yield Fault(
                (*path, "credentials", at), "names no person and no group", "give person, group, or both"
            )


def _plugins(federation: Federation) -> Iterator[Fault]:
    plugins = KnownNames("brokerage plugin", brokerages())
    for vo, name in federation.plugins.items():
        yield from plugins.lacks(("plugins", vo), name)
    for name, options in federation.plugin_options.items():
        yield from plugins.lacks(("plugin_options", name), name)
        if name in plugins.names:
            yield from _options(name, options)
    shares = KnownNames("share", {share.name for share in federation.shares})
    for name in federation.brokerage.nqueue_limit_site_by_share:
        yield from shares.lacks(("brokerage", "nqueue_limit_site_by_share", name), name)


def _options(name: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    """Make a plugin with its options and yield its faults. An error may carry the option's ``path``."""
    for point in entry_points(group=BROKERAGES, name=name):
        try:
            point.load()(dict(options))
        except (TypeError, ValueError) as error:
            path = ("plugin_options", name, *getattr(error, "path", ()))
            yield Fault(path, str(getattr(error, "message", error)), "see the options of this plugin")


def _references(spec: TaskSpec, federation: Federation, owner: Identity | None) -> Iterator[Fault]:
    yield from _nucleus(spec, federation)
    queues = KnownNames("queue", {queue.name for queue in federation.queues})
    for at, name in enumerate(spec.queues):
        yield from queues.lacks(("queues", at), name)
    pools = KnownNames("submit pool", federation.director.submit_pools.keys())
    for at, name in enumerate(spec.submit_pools):
        yield from pools.lacks(("submit_pools", at), name)
    if spec.brokerage:
        yield from KnownNames("brokerage plugin", brokerages()).lacks(("brokerage",), spec.brokerage)
    shares = {share.name: share for share in federation.shares}
    yield from KnownNames("share", shares.keys()).lacks(("share",), spec.share)
    vo = shares[spec.share].vo if spec.share in shares else ""
    if owner and vo and owner.vo != vo:
        mine = ", ".join(sorted(share.name for share in shares.values() if share.vo in ("", owner.vo)))
        remedy = f"give one of {mine}" if mine else "ask an operator for a share"
        yield Fault(("share",), f"{spec.share!r} belongs to the VO {vo}", remedy)
    if owner and spec.transfer_sub_share:
        declared = declared_sub_shares(owner, federation.staging)
        yield from KnownNames("sub-share", declared).lacks(("transfer_sub_share",), spec.transfer_sub_share)
    storages = KnownNames("storage", {storage.name for storage in federation.storages})
    for at, file in enumerate(spec.inputs):
        if isinstance(file, InputFile) and not file.replicas:
            message = f"no storage is known to hold {file.name!r}"
            yield Fault(("inputs", at, "replicas"), message, "name the storages that hold it")
        key = "replicas" if isinstance(file, InputFile) else "storages"
        for index, name in enumerate(getattr(file, key, ())):
            if name not in storages.names:
                yield from storages.lacks(("inputs", at, key, index), name)


def _stations(spec: TaskSpec, federation: Federation, ads: Iterable[Advertisement]) -> Iterator[Fault]:
    stations = KnownNames("station", known_stations(federation, ads) if spec.stations else ())
    for at, name in enumerate(spec.stations):
        yield from stations.lacks(("stations", at), name)


def _nucleus(spec: TaskSpec, federation: Federation) -> Iterator[Fault]:
    if not spec.nucleus:
        return
    sites = {site.name for site in federation.sites}
    yield from KnownNames("site", sites).lacks(("nucleus",), spec.nucleus)
    holding = {storage.site for storage in federation.storages}
    if spec.nucleus in sites and spec.nucleus not in holding:
        message = f"the site {spec.nucleus!r} has no storage for outputs"
        yield Fault(("nucleus",), message, f"give one of {', '.join(sorted(holding))}")
