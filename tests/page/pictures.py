"""Screenshots of every view at four widths, light and dark. ``make pictures`` writes them."""

from pathlib import Path
from typing import Literal

import pytest

from .conftest import Visit
from .test_looks import WIDTHS
from .views import VIEWS, SeenView

PICTURES = Path(__file__).parents[2] / "build" / "pictures"
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.mark.parametrize("seen", VIEWS, ids=lambda seen: seen.name)
def test_picture(visit: Visit, seen: SeenView) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page = visit(seen.person, seen.address, seen.status)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            made = page.screenshot(path=PICTURES / f"{seen.name}-{width}-{theme}.png", full_page=True)
            assert made
