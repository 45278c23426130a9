"""The site of the documentation: no dead link, no page that the index lacks, nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from site_hooks import navigation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc=["']?(?P<source>[^"' >]+)"""
    r"""|<link\b[^>]*?rel=["']?(?:stylesheet|icon|preload|preconnect)[^>]*?href=["']?(?P<sheet>[^"' >]+)""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make site`` builds it."""
    target = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(target)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 90
    loaded = {
        (page.name, address)
        for page in pages
        for found in LOADED.finditer(page.read_text())
        for address in (found["source"] or found["sheet"],)
    }
    assert len(loaded) > 90
    assert {one for one in loaded if re.match(r"(\w+:)?//", one[1])} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles) == []
    # The theme would load the diagrams' program from another host.
    assert not any('class="mermaid"' in page.read_text() for page in pages)


def test_every_page_can_be_searched(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    for page in ("tutorials/first-task.html", "how-to/retry.html", "changelog.html"):
        assert f'"{page}"' in index


def test_the_navigation_has_the_four_needs() -> None:
    sections = [title for entry in navigation((ROOT / "docs" / "README.md").read_text()) for title in entry]
    assert sections[:4] == ["Tutorials", "How-to", "Explanation", "Reference"]


GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"


def test_the_glossary_is_short_and_its_first_words_are_those_of_the_first_lesson() -> None:
    words = re.findall(r"^\| (\*\*)?([\w ]+?)(?:\*\*)? \| (.*) \|$", GLOSSARY.read_text(), re.MULTILINE)[1:]
    first = [word for bold, word, _ in words if bold]
    assert len(words) <= 40
    assert len(first) <= 8
    lesson = (ROOT / "docs" / "tutorials" / "first-task.md").read_text()
    assert [word for word in first if f"| **{word}** |" not in lesson] == []


RULE = re.compile(r"\b[BDEFHMPT]\d{1,2}\b")


def test_sentences_for_users_carry_no_numbers_of_rules() -> None:
    """They stand in code, in the table at a page's end, or in its last line."""
    folders = [ROOT / "docs" / name for name in ("tutorials", "how-to", "explanation")]
    found = {
        f"{page.name}: {line}"
        for page in (
            ROOT / "README.md",
            ROOT / "CHANGELOG.md",
            *(page for folder in folders for page in folder.glob("*.md")),
        )
        for line in re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        .partition("\n## The published rules\n")[0]
        .splitlines()
        if RULE.search(re.sub(r"`[^`]*`", "", line)) and not line.startswith(("    ", "Published rules: "))
    }
    assert found == set()


def test_the_changelog_says_each_thing_once() -> None:
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))
