"""The site of the documentation: navigation from the index page, links for site and repository.

``make site`` builds it by MkDocs, which calls the functions named ``on_…``.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/HISTORY.md": "benchmarks.md",
    "examples/astronomy/README.md": "examples/astronomy.md",
    "examples/genomics/README.md": "examples/genomics.md",
}
"""Pages that lie elsewhere in the repository, and their place in the site."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CODE_OR_LINK = re.compile(rf"^```.*?^```|{LINK.pattern}|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(##+) (.+)$")


def on_config(config: MkDocsConfig) -> None:
    """Take the navigation from the index page: a section for each heading, an entry for each link."""
    config.nav = [{"Home": "README.md"}, *navigation((DOCS / "README.md").read_text())]


def navigation(index: str) -> list[dict[str, Any]]:
    """Sections of the index page with their pages, in order."""
    sections: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for line in index.splitlines():
        if heading := HEADING.match(line):
            above = sections if heading[1] == "##" else next(iter(sections[-1].values()))
            entries = []
            above.append({heading[2]: entries})
        elif sections:
            entries += (entry for title, link in LINK.findall(line) for entry in _entries(title, link))
    return sections


def _entries(title: str, link: str) -> Iterator[dict[str, Any]]:
    place = _in_site(os.path.normpath(f"docs/{link}"))
    if place is None:
        raise PluginError(f"docs/README.md: {link} is no page")
    if place.endswith("/README.md"):
        folder = place.removesuffix("README.md")
        pages = sorted(path.name for path in (DOCS / folder).glob("*.md") if path.name != "README.md")
        yield {title: [place, *(folder + page for page in pages)]}
    elif place.endswith(".md"):
        yield {title: place}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages of the repository's top folder."""
    for name, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to the site's pages; keep only the text of links to files that the site does not hold."""
    place = page.file.src_uri
    if place == "README.md":
        page.meta["hide"] = ["navigation"]  # the page itself is the list of all pages
    origin = next((name for name, there in OUTSIDE.items() if there == place), f"docs/{place}")

    def relinked(found: re.Match[str]) -> str:
        path, hash_, anchor = (found[2] or "").partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return found[0]
        target = _in_site(os.path.normpath(Path(origin).parent / path))
        if target is None:
            return found[1]
        return f"[{found[1]}]({os.path.relpath(target, Path(place).parent)}{hash_}{anchor})"

    return CODE_OR_LINK.sub(relinked, markdown)


def _in_site(path: str) -> str | None:
    """Where the site holds a file of the repository."""
    return OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
