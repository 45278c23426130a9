"""Worlds of decisions are kept, bounded in bytes, age and number, and give the same decision again."""

import stat
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.cli.app import app
from pilotage.flow.outside.kept_worlds import EVERY, FOLDER, KeptWorlds, list_worlds, read_kept
from pilotage.flow.planning import plan
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import read_world, take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.serialization import canonical_json
from pilotage.store import Store
from pilotage.testing.records import NOW
from pilotage.testing.stores import FEDERATION, new_jobs, new_task
from pilotage.testing.worlds import world


def test_a_pass_that_changed_something_leaves_a_world_that_decides_the_same(
    tmp_path: Path, store: Store
) -> None:
    store.save_federation(FEDERATION, "test")
    runtime = Runtime(store, STEPS, load=load, movers=InstalledMovers, clock=lambda: NOW, seeds=lambda: 7)
    runtime.kept_worlds = KeptWorlds(tmp_path / FOLDER, days=2)
    new_jobs(store, new_task(store), 3)
    broker = step("broker")
    expected = canonical_json(plan("broker", read_world(broker, runtime, runtime.begin(100))))
    assert take(broker, runtime, runtime.begin(100)) == 3
    runtime.kept_worlds.wait()
    runtime.close()
    (one,) = list_worlds(tmp_path / FOLDER)
    assert (one.step, one.time) == ("broker", NOW)
    assert stat.S_IMODE(one.file.stat().st_mode) == 0o600
    assert canonical_json(plan("broker", read_kept(one))) == expected
    home = {"PILOTAGE_HOME": str(tmp_path)}
    listed = CliRunner().invoke(app, ["replay"], env=home)
    assert one.name in listed.stdout
    again = CliRunner().invoke(app, ["replay", one.name, "--json"], env=home)
    assert again.stdout.strip() == expected
    assert CliRunner().invoke(app, ["replay", "yesterday"], env=home).exit_code == 1


def test_worlds_are_bounded_in_number_bytes_and_age(tmp_path: Path) -> None:
    first = world()
    worlds = KeptWorlds(tmp_path, days=1)

    def offer(later: float, keeper: KeptWorlds = worlds) -> None:
        keeper.offer("split", replace(first, time=first.time + later))
        keeper.wait()

    for later in (0.0, EVERY / 2, EVERY, 2 * EVERY):
        offer(later)
    assert [one.time - first.time for one in list_worlds(tmp_path)] == [0.0, EVERY, 2 * EVERY]
    offer(86_400 + 1.5 * EVERY)
    assert [one.time - first.time for one in list_worlds(tmp_path)] == [2 * EVERY, 86_400 + 1.5 * EVERY], (
        "too old"
    )
    offer(
        86_400 + 3 * EVERY, KeptWorlds(tmp_path, days=1, most_bytes=int(1.5 * list_worlds(tmp_path)[0].size))
    )
    assert len(list_worlds(tmp_path)) == 1, "too large together: the newest stays"
    KeptWorlds(tmp_path, days=0).offer("broker", first)
    assert {one.step for one in list_worlds(tmp_path)} == {"split"}
