"""Index pages of web servers, of which the links are read."""

from html.parser import HTMLParser


def links(page: str) -> set[str]:
    """Find the addresses that a page links to, as they are written there."""
    found = _Links()
    found.feed(page)
    return found.found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a link leads."""
        if tag == "a":
            self.found.update(value for name, value in attrs if name == "href" and value)
