"""``pilotage federation import``: what is written where, what is told, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path

from pilotage.cli.places.importing import ImporterKind
from pilotage.federation.documents import read, write
from pilotage.federation.importers import IMPORTERS
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import Requirements
from pilotage.testing import jobs, task, world

from .conftest import Pilotage

ENTRY = """<entry name="{name}" enabled="True" gatekeeper="ce.a.org" gridtype="arc"><attrs>
<attr name="GLIDEIN_CPUS" value="{cores}"/><attr name="GLIDEIN_Site" value="A"/>
</attrs></entry>
"""


def factory(folder: Path, *cores: str) -> Path:
    """A file of an entry for each of these numbers of cores."""
    file = folder / "entries.xml"
    entries = "".join(ENTRY.format(name=f"E{at}", cores=count) for at, count in enumerate(cores))
    file.write_text(f"<glidein><entries>\n{entries}</entries></glidein>\n")
    return file


def test_every_kind_of_document_can_be_named() -> None:
    assert {kind.value for kind in ImporterKind} == set(IMPORTERS)


def test_the_federation_goes_to_a_file_that_check_accepts(pilotage: Pilotage, tmp_path: Path) -> None:
    output = tmp_path / "federation.yaml"
    done = pilotage("federation", "import", "gfactory", factory(tmp_path, "1", "8"), "--output", output)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "2 queues, 1 sites, 1 storages, 0 links, of 2 entries, 0 refused" in done.stderr
    assert "GLIDEIN_MaxMemMBs" in done.stderr
    assert [queue.cores for queue in read(Federation, output).queues] == [1, 8]
    assert pilotage("federation", "check", output).exit_code == 0


def test_without_a_file_the_federation_is_printed_and_its_report_apart(
    pilotage: Pilotage, tmp_path: Path
) -> None:
    done = pilotage("federation", "import", "gfactory", factory(tmp_path, "1", "x"))
    assert done.exit_code == 0
    assert done.stdout.startswith("name: entries\nsites:\n")
    (refusal,) = (line for line in done.stderr.splitlines() if line.startswith("refused: "))
    assert "entries.xml:6: E1: GLIDEIN_CPUS: is not a whole number; give cores in digits" in refusal


def test_json_has_every_note_and_the_federation(pilotage: Pilotage, tmp_path: Path) -> None:
    file = factory(tmp_path, "1", "x")
    done = pilotage("federation", "import", "gfactory", file, "--json")
    document = json.loads(done.stdout)
    assert (document["entries"], document["queues"], document["refused"]) == (2, 1, 1)
    assert document["federation"]["queues"][0]["name"] == "E0"
    parts = {"action", "file", "line", "entry", "field", "value", "text", "matters"}
    assert parts == document["notes"][0].keys()
    output = tmp_path / "federation.yaml"
    written = json.loads(
        pilotage("federation", "import", "gfactory", file, "--json", "--output", output).stdout
    )
    assert written["output"] == str(output)
    assert written["federation"] is None
    assert output.exists()


def test_nothing_that_remains_is_bad_input(pilotage: Pilotage, tmp_path: Path) -> None:
    output = tmp_path / "federation.yaml"
    done = pilotage("federation", "import", "gfactory", factory(tmp_path, "x"), "--output", output)
    assert done.exit_code == 2
    assert "nothing remains of 1 entry" in done.stderr
    assert not output.exists()
    assert pilotage("federation", "import", "gfactory", factory(tmp_path, "x"), "--json").exit_code == 2


def test_a_file_that_is_not_there_and_a_place_that_cannot_be_written_are_told(
    pilotage: Pilotage, tmp_path: Path
) -> None:
    missing = pilotage("federation", "import", "cric", tmp_path / "none.json")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.stderr
    nowhere = tmp_path / "no" / "folder.yaml"
    unwritten = pilotage("federation", "import", "gfactory", factory(tmp_path, "1"), "--output", nowhere)
    assert unwritten.exit_code == 2
    assert "cannot be written" in unwritten.stderr


def test_cric_documents_in_several_files_make_one_federation(pilotage: Pilotage, tmp_path: Path) -> None:
    queues, sites = tmp_path / "queues.json", tmp_path / "sites.json"
    queues.write_text('{"Q": {"atlas_site": "A", "corecount": 8, "status": "online"}}')
    sites.write_text('{"A": {"datapolicies": ["Nucleus"], "tier_level": 1}}')
    done = pilotage("federation", "import", "cric", sites, queues, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["federation"]["sites"][0]["nucleus"] is True


def test_the_brokerage_can_plan_with_what_was_imported(pilotage: Pilotage, tmp_path: Path) -> None:
    output, saved = tmp_path / "federation.yaml", tmp_path / "world.yaml"
    pilotage("federation", "import", "gfactory", factory(tmp_path, "1", "8"), "--output", output)
    work = task(cores=8)
    (job,) = (replace(job, requirements=Requirements.of(work.spec, work.owner).text) for job in jobs(work))
    saved.write_text(write(world(read(Federation, output), work, jobs=(job,))))
    planned = pilotage("plan", "broker", "--world", saved)
    assert planned.exit_code == 0, planned.output
    assert "1 job placed; 1 of 2 queues can take it" in planned.stdout
