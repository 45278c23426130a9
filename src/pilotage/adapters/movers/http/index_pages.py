"""Parse links in web servers' index pages."""

from html.parser import HTMLParser


def links(page: str) -> set[str]:
    """Return the addresses that a page links to, as written there."""
    parser = _Links()
    parser.feed(page)
    return parser.links


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the target of a link."""
        if tag == "a":
            self.links.update(value for name, value in attrs if name == "href" and value)
