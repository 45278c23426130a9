"""Examples of files in the pages: every field is one that the code knows, with a value that it takes."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilotage.federation.documents import read, read_tasks, read_workflow_name
from pilotage.federation.faults import BadFile
from pilotage.federation.source_files import SourceFile
from pilotage.federation.workflow_checks import workflow_faults
from pilotage.flow.calls.administration import acceptance
from pilotage.model.records.federation import Federation
from pilotage.model.records.work import TaskSpec
from pilotage.server.api.sign_in.issuer_files import read_issuers
from pilotage.simulation.scenario import Scenario

ROOT = Path(__file__).parents[2]
MADE_FROM_CODE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^( *)```yaml\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^|\n\n)((?: {4}[^\n]*\n|\n(?= {4}))+)")
A_MAPPING = re.compile(r"[a-z_]+:(\s|$)")
OF_OTHERS = "apiVersion:"
FEDERATION = """
name: example
sites: [{ name: home }]
storages: [{ name: disk, site: home, url: "file:///data" }]
queues:
- name: queue
  site: home
  storage: disk
"""


def _examples() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if MADE_FROM_CODE in page.parents:
            continue
        text = page.read_text()
        blocks = [found[2] for found in FENCED.finditer(text)]
        blocks += [found[1].strip("\n") + "\n" for found in INDENTED.finditer(text)]
        examples = [textwrap.dedent(block) for block in blocks]
        kept = [one for one in examples if A_MAPPING.match(one) and not one.startswith(OF_OTHERS)]
        for number, example in enumerate(kept, 1):
            yield f"{page.relative_to(ROOT)}-{number}", example


EXAMPLES = dict(_examples())


def _faults(kind: type, text: str) -> list[str]:
    try:
        read(kind, SourceFile("example", text))
    except BadFile as bad:
        # A part of a file lacks what the other parts say.
        return [str(fault) for fault in bad.faults if fault.message != "is missing"]
    return []


@pytest.mark.parametrize("name", EXAMPLES)
def test_fields_of_an_example_are_known(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    if example.startswith("workflow:"):
        source = SourceFile("example", example)
        assert read_workflow_name(source)
        assert workflow_faults(read_tasks(source)) == []
        return
    if example.startswith("issuers:"):
        (tmp_path / "issuers.yaml").write_text(example)
        assert read_issuers(tmp_path / "issuers.yaml")
        return
    of_a_queue, of_a_storage = (
        f"{group}:\n- name: example\n{textwrap.indent(example, '  ')}" for group in ("queues", "storages")
    )
    tried = [(Federation, example), (TaskSpec, example), (Scenario, example)]
    tried += [(Federation, of_a_queue), (Federation, of_a_storage)]
    assert min((_faults(kind, text) for kind, text in tried), key=len) == []


ELEMENTS = [name for name, example in EXAMPLES.items() if example.startswith("computing_element:")]


@pytest.mark.parametrize("name", ELEMENTS)
def test_options_of_a_computing_element_are_those_of_its_adapter(name: str) -> None:
    read(
        Federation,
        SourceFile("example", FEDERATION + textwrap.indent(EXAMPLES[name], "  ")),
        acceptance.faults,
    )


def test_there_are_examples_of_both_forms() -> None:
    assert len(EXAMPLES) > 40
    assert len(ELEMENTS) > 5
