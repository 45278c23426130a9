"""Each view in a real browser: no sideways scroll, and no serious fault of access, light and dark."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from .conftest import Visit
from .views import VIEWS, SeenView

WIDTHS = (390, 620, 820, 1440)
"""CSS pixels: a phone, the narrowest window with tables, a tablet, a desk."""

each_view = pytest.mark.parametrize("seen", VIEWS, ids=lambda seen: seen.name)

_TOO_WIDE = """() => [...document.querySelectorAll('body *')]
    .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        && !one.closest('.skip, thead'))
    .map(one => one.outerHTML.slice(0, 120)).slice(0, 5)"""


@each_view
def test_a_view_is_never_wider_than_the_window(visit: Visit, seen: SeenView) -> None:
    page = visit(seen.person, seen.address, seen.status, viewport={"width": WIDTHS[0], "height": 900})
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (width, wide, page.evaluate(_TOO_WIDE))


@each_view
def test_a_view_has_no_serious_fault_of_access(visit: Visit, seen: SeenView) -> None:
    page = visit(seen.person, seen.address, seen.status, color_scheme="light")
    assert faults(page) == []
    # Themes differ in colours alone.
    page.emulate_media(color_scheme="dark")
    assert faults(page, "color-contrast") == []


def faults(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical faults that axe finds on a page, each with a place."""
    options: dict[str, object] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = Axe().run(page, options=options)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:160]} {one['nodes'][0].get('failureSummary', '')}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
