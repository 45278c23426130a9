"""Rucio keeps the promises of the port, against a real server."""

import socket
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pilotage.adapters.catalogues import rucio
from pilotage.adapters.catalogues.loader import load
from pilotage.flow.calls.work.submit import SubmissionOutcome, submit
from pilotage.flow.outside import catalogues
from pilotage.model.records.catalogues import ExternalCatalogue, MappedStorage, OutputTerms, ReplicationRule
from pilotage.model.records.inputs import Input
from pilotage.model.records.work import InputDataset, InputFile, InputPattern, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.ports.catalogue import CatalogueError, CataloguePort, PublishingPort
from pilotage.server.process import runtime_of
from pilotage.store import Store
from tests.flow.house import House, federation
from tests.reading import world_of
from tests.waiting import PATIENCE, wait_for

from .contract import FILES, SCOPE, A, CatalogueContract, PublishingContract, output
from .rucio_server import LOGIN, rucio_server

PHYSICIST = Identity(name="ada", vo="atlas")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rucio_server(tmp_path_factory.mktemp("rucio")) as url:
        client = administrator(url)
        for rse, deterministic in (("SOUTH", True), ("NORTH", False), ("FAR", True)):
            client.add_rse(rse, deterministic=deterministic)
            client.add_protocol(rse, protocol(rse))
            client.set_local_account_limit("root", rse, 10**15)
        client.add_scope("root", SCOPE)
        client.add_scope("root", "mc20")
        client.add_replicas("SOUTH", [record(one) for one in FILES])
        client.add_replicas("FAR", [{**record(A), "name": "far.dat", "scope": "mc20"}])
        yield url


def administrator(url: str) -> Any:
    client = pytest.importorskip("rucio.client", reason="rucio-clients is not installed: the extra rucio")
    creds = {"username": LOGIN["username"], "password": LOGIN["password"]}
    # Its tokens would lie where those of another server of this machine may.
    folder = {"TOKEN_PATH_PREFIX": f"{tempfile.mkdtemp(prefix='pilotage-test-')}/"}
    return type("Administrator", (client.Client,), folder)(
        rucio_host=url, auth_host=url, account="root", auth_type="userpass", creds=creds
    )


def protocol(rse: str) -> dict[str, Any]:
    able = {"read": 1, "write": 1, "delete": 1}
    return {
        "scheme": "file",
        "hostname": "localhost",
        "port": 0,
        "prefix": f"/rse/{rse}/",
        "impl": "rucio.rse.protocols.posix.Default",
        "domains": {
            "lan": able,
            "wan": {**able, "third_party_copy_read": 1, "third_party_copy_write": 1},
        },
    }


def record(file: InputFile) -> dict[str, Any]:
    adler = file.checksum.partition(":")[2]
    return {"scope": SCOPE, "name": file.name, "bytes": file.size, "adler32": adler}


def declared(url: str, **options: Any) -> ExternalCatalogue:
    return ExternalCatalogue(
        name="rucio",
        vos=("atlas",),
        storages=(
            MappedStorage(rse="SOUTH", storage="south-disk", prefix="file://localhost/rse/SOUTH/"),
            MappedStorage(rse="NORTH", storage="north-disk", prefix="file://localhost/rse/NORTH/"),
        ),
        outputs=OutputTerms(scopes=(SCOPE,)),
        options={"url": url, **LOGIN, **options},
    )


def adapter(url: str, place: Path, **options: Any) -> CataloguePort:
    return load(declared(url, **options), federation(place))


class RucioShelf:
    """The server with the files of the contract; its datasets are closed."""

    def __init__(self, url: str, place: Path) -> None:
        self.port: Any = adapter(url, place)
        self.administrator = administrator(url)

    def define(self, dataset: str, files: Sequence[InputFile]) -> None:
        self.administrator.add_dataset(SCOPE, dataset)
        dids = [{"scope": SCOPE, "name": one.name} for one in files]
        self.administrator.attach_dids(SCOPE, dataset, dids)
        self.administrator.close(SCOPE, dataset)


@pytest.fixture
def shelf(url: str, tmp_path: Path) -> RucioShelf:
    return RucioShelf(url, tmp_path)


class TestRucio(CatalogueContract):
    def test_an_open_dataset_may_change_and_is_refused(self, shelf: RucioShelf, runs: str) -> None:
        shelf.administrator.add_dataset(SCOPE, runs)
        with pytest.raises(LookupError, match="still open in rucio and may change: close it there"):
            shelf.port.dataset(SCOPE, runs)

    def test_what_lies_elsewhere_is_refused_with_where(self, shelf: RucioShelf) -> None:
        with pytest.raises(
            LookupError, match=r"mc20:far\.dat is at FAR; the catalogue rucio maps NORTH, SOUTH"
        ):
            shelf.port.matching("mc20", "far.dat")

    def test_paths_are_those_that_rucio_tells(self, shelf: RucioShelf) -> None:
        (found,) = shelf.port.matching(SCOPE, "walks.dat")
        assert found.paths["south-disk"].endswith("/walks.dat")
        assert found.paths["south-disk"].startswith(f"{SCOPE}/")

    def test_a_wrong_password_is_told_without_it(self, url: str, tmp_path: Path) -> None:
        with pytest.raises(CatalogueError, match="rucio") as refused:
            adapter(url, tmp_path, password="never-shown").matching(SCOPE, "*")
        assert "never-shown" not in str(refused.value)

    def test_the_password_may_stand_in_a_file(self, url: str, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("secret\n")
        able = adapter(url, tmp_path, password="", password_file=str(tmp_path / "password"))
        assert len(able.matching(SCOPE, "walks*")) == 1


RULE = ReplicationRule(rse_expression="NORTH", lifetime=86_400)


class TestPublishing(PublishingContract):
    @pytest.fixture
    def publisher(self, url: str, tmp_path: Path) -> PublishingPort:
        return cast(PublishingPort, adapter(url, tmp_path))

    def test_a_rule_is_set_once(self, shelf: RucioShelf, runs: str) -> None:
        for number in (1, 2):
            shelf.port.publish(SCOPE, runs, [output(runs, number)], RULE)
        (rule,) = shelf.administrator.list_did_rules(SCOPE, runs)
        assert (rule["rse_expression"], rule["copies"], rule["state"]) == ("NORTH", 1, "OK")
        lasts = rule["expires_at"] - rule["created_at"]
        assert abs(lasts.total_seconds() - RULE.lifetime) < 60

    def test_a_rule_that_cannot_be_set_is_told_of_and_the_files_are_registered(
        self, shelf: RucioShelf, runs: str
    ) -> None:
        with pytest.raises(CatalogueError, match=f"sets no rule for {SCOPE}:{runs}, 1 copies at NOWHERE"):
            shelf.port.publish(SCOPE, runs, [output(runs, 1)], replace(RULE, rse_expression="NOWHERE"))
        assert [one["name"] for one in shelf.administrator.list_files(SCOPE, runs)] == [output(runs, 1).name]

    def test_outputs_at_a_deterministic_rse_are_refused_with_what_would_be_right(
        self, shelf: RucioShelf, runs: str
    ) -> None:
        file = replace(output(runs, 1), paths={"south-disk": "tasks/flow/1/1/out"})
        refused = shelf.port.publish(SCOPE, runs, [file], None)
        assert "the RSE SOUTH of the storage south-disk is deterministic" in refused[file.name]
        assert "map an RSE to it that is not, too" in refused[file.name]
        with pytest.raises(LookupError, match="SOUTH of the storage south-disk is deterministic"):
            shelf.port.check_output(SCOPE, runs, ["south-disk"])

    def test_of_two_rses_of_a_storage_the_one_that_is_not_deterministic_takes_outputs(
        self, url: str, tmp_path: Path, runs: str
    ) -> None:
        known = declared(url)
        both = tuple(replace(one, storage="north-disk") for one in known.storages)
        port: Any = load(replace(known, storages=both), federation(tmp_path))
        assert port.publish(SCOPE, runs, [output(runs, 1)], None) == {}
        (listed,) = administrator(url).list_replicas([{"scope": SCOPE, "name": output(runs, 1).name}])
        assert [*listed["rses"]] == ["NORTH"]

    def test_a_file_that_rucio_has_at_another_path_is_refused(self, shelf: RucioShelf, runs: str) -> None:
        assert shelf.port.publish(SCOPE, runs, [output(runs, 1)], None) == {}
        moved = replace(output(runs, 1), paths={"north-disk": "elsewhere/out"})
        refused = shelf.port.publish(SCOPE, runs, [moved], None)
        assert "is not at elsewhere/out of NORTH" in refused[moved.name]

    def test_a_checksum_that_rucio_does_not_know_is_refused(self, shelf: RucioShelf, runs: str) -> None:
        file = replace(output(runs, 1), checksum=f"sha256:{'0' * 64}")
        refused = shelf.port.publish(SCOPE, runs, [file], None)
        assert "adler32 or md5" in refused[file.name]

    def test_a_name_that_is_no_dataset_is_refused(self, shelf: RucioShelf) -> None:
        with pytest.raises(LookupError, match=rf"{SCOPE}:walks\.dat is no dataset in rucio but a file"):
            shelf.port.publish(SCOPE, "walks.dat", (), None)
        with pytest.raises(LookupError, match="no dataset in rucio but a file"):
            shelf.port.check_output(SCOPE, "walks.dat", ["north-disk"])

    def test_what_rucio_does_not_permit_is_told(self, url: str, tmp_path: Path, runs: str) -> None:
        client = administrator(url)
        if "bob" not in {one["account"] for one in client.list_accounts()}:
            client.add_account("bob", "USER", "bob@localhost")
            client.add_identity("bob", "bob", "USERPASS", "bob@localhost", password="secretbob")
        bob: Any = adapter(url, tmp_path, account="bob", username="bob", password="secretbob")
        with pytest.raises(CatalogueError, match="can not add data identifier to scope"):
            bob.publish(SCOPE, runs, [output(runs, 1)], None)


def test_wrong_options_are_told_without_their_values(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="url: ") as refused:
        adapter("ftp://x", tmp_path, password="never-shown")
    assert "never-shown" not in str(refused.value)


class _Atlas(House):
    """A house whose federation knows a Rucio."""

    def __init__(self, store: Store, place: Path, url: str) -> None:
        super().__init__(store, place)
        knowing = replace(federation(place), catalogues=(declared(url),))
        self.runtime.save_federation(knowing, "test")

    def asked(self, *inputs: Input, owner: Identity = PHYSICIST) -> SubmissionOutcome:
        return self.submit({"inputs": inputs}, owner=owner)


def test_a_task_reads_a_dataset_of_rucio_where_rucio_says_that_it_lies(
    store: Store, tmp_path: Path, url: str, shelf: RucioShelf
) -> None:
    whole = f"whole-{tmp_path.name}"
    shelf.define(whole, FILES[:2])
    house = _Atlas(store, tmp_path, url)
    ((_, task),) = house.asked(InputDataset(dataset=whole, scope=f"rucio~{SCOPE}")).tasks
    view = store.queries.task(task)
    assert view is not None
    assert view.datasets == (f"rucio~{SCOPE}:{whole}",)
    assert [one.name for one in view.spec.inputs if isinstance(one, InputFile)] == [
        "runs/1.dat",
        "runs/2.dat",
    ]
    entry = store.catalogue.entry(f"rucio~{SCOPE}:runs/1.dat")
    assert entry is not None
    ((replica,),) = (entry.replicas,)
    assert (replica.storage, replica.path) == ("south-disk", replica.place)
    assert replica.path.endswith("/runs/1.dat")
    # Its path is its own, and yet it is no copy that Pilotage made.
    assert world_of(store, "clean", house.now, 1, 10).copies == ()


def test_others_than_its_vos_do_not_read_through_a_catalogue(store: Store, tmp_path: Path, url: str) -> None:
    house = _Atlas(store, tmp_path, url)
    for asked in (
        InputDataset(dataset="whole", scope=f"rucio~{SCOPE}"),
        InputPattern(glob="**", scope=f"rucio~{SCOPE}"),
        InputFile(name="walks.dat", size=1, replicas=("south-disk",), scope=f"rucio~{SCOPE}"),
    ):
        ((_, ((_, message), *_)),) = house.asked(asked, owner=Identity(name="eve", vo="ligo")).refused
        assert f"'rucio~{SCOPE}' is not yours" in message


def test_a_dead_rucio_holds_up_few_of_those_who_ask_it_and_nobody_else(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No call's own time ends it: four are held until the address is closed, on however slow a machine.
    monkeypatch.setattr(catalogues, "CALL_TIME", PATIENCE)
    monkeypatch.setattr(rucio, "CALL_TIMEOUT", PATIENCE)
    with ThreadPoolExecutor(12) as people:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            house = _Atlas(store, tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}")
            runtime = runtime_of(store)
            asked = TaskSpec(name="t", inputs=(InputPattern(glob="**", scope=f"rucio~{SCOPE}"),))
            waiting = [people.submit(submit, runtime, [asked], PHYSICIST) for _ in range(12)]
            turned_away = 12 - catalogues.MOST_CALLS
            wait_for(lambda: sum(one.done() for one in waiting) >= turned_away, "eight are told")
            assert sum(one.done() for one in waiting) == turned_away
            assert house.submit({}, owner=PHYSICIST).tasks
        told = [one.result().refused[0][1][0][1] for one in waiting]
    runtime.close()
    assert sum("try again soon" in one for one in told) == turned_away
    assert all("the catalogue rucio" in one for one in told)


def test_a_call_to_a_dead_rucio_ends_by_its_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "CALL_TIME", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        house = _Atlas(store, tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        asked = TaskSpec(name="t", inputs=(InputPattern(glob="**", scope=f"rucio~{SCOPE}"),))
        runtime = runtime_of(store)
        ((_, ((_, message), *_)),) = submit(runtime, [asked], PHYSICIST).refused
        runtime.close()
    assert "the catalogue rucio" in message
    assert house.submit({}, owner=PHYSICIST).tasks
