"""Every relative link in the project's pages leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as they are linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(CODE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is no {target.relative_to(ROOT)}"
        assert not anchor or anchor in anchors(target), f"{link}: {path} has no such heading"


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in LINK.findall(index)}
    pages = {page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "decisions"}
    assert pages - {ROOT / "docs" / "README.md"} <= linked
