"""Parse XML text into a plain tree with line numbers, for untrusted files.

It refuses document types without reading them. So no entity can grow or read another file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from pilotage.federation.importers.import_result import RefusedEntry

MAX_DEPTH = 50


@dataclass(slots=True)
class Element:
    """An element with its attributes and children in order. ``line`` counts from 1."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = field(default_factory=list)

    def walk(self) -> Iterator["Element"]:
        """Yield the element and all below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()


class BadXml(RefusedEntry):
    """Text that is not XML, or not a kind of XML that we read."""

    def __init__(self, line: int, message: str, remedy: str) -> None:
        super().__init__("", "", message, remedy)
        self.line = line


def parse(text: str) -> Element:
    """Return the root element. Raises ``BadXml`` with the line of the first fault."""
    builder = _ElementBuilder()
    try:
        # Pass unpaired surrogates on, so that expat refuses them with their line.
        builder.parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        problem = expat.errors.messages.get(error.code, str(error))
        raise BadXml(error.lineno, f"is not XML: {problem}", "check it with an XML editor") from error
    return builder.root[0]


class _ElementBuilder:
    def __init__(self) -> None:
        self.root: list[Element] = []
        self._open: list[Element] = []
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._declared
        parser.EntityDeclHandler = self._declared
        parser.ExternalEntityRefHandler = self._declared

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, self.parser.CurrentLineNumber)
        if len(self._open) >= MAX_DEPTH:
            raise BadXml(element.line, f"is nested deeper than {MAX_DEPTH} levels", "write it flatter")
        (self._open[-1].children if self._open else self.root).append(element)
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _declared(self, *_: Any) -> int:
        line = self.parser.CurrentLineNumber
        raise BadXml(
            line, "declares a document type or an entity", "remove the DOCTYPE and write entities out"
        )
