"""Takes the pictures of docs/service-page.md: `python -m tests.browser.screenshots`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from tests.browser.serving import EDIT, Page, chromium, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
_QUESTION = {"machine": "h100", "request.model": "WanPipeline", "request.role": "self"}
_MORE = {"why_not": "CUDNN_ATTN", "any": "true", "if": "arch=sm_120"}
_WRONG = EDIT.replace("arch", "arhc")


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: the part of the page at its top, and what it waits for."""

    name: str
    colours: Literal["light", "dark"]
    size: tuple[int, int]
    state: dict[str, str]
    part: str | None = None
    waits: tuple[tuple[str, str], ...] = ()


PICTURES = (
    Picture("light", "light", (1280, 1250), _QUESTION),
    Picture("dark", "dark", (1280, 1250), {**_QUESTION, **_MORE}, "what-if", (("≠", "#otherwise .headline"),)),
    Picture("editor", "light", (1280, 620), {**_QUESTION, "edit": _WRONG}, "edit", (("1 problem", "#edit-said"),)),
    Picture("phone", "light", (360, 1250), _QUESTION, "answer"),
)


def take(browser: Browser, address: str, picture: Picture, folder: Path) -> Path:
    """Take a picture; give its file."""
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=picture.colours, reduced_motion="reduce"
    )
    page = Page(context, address).open(urlencode(picture.state))
    page.shows("FLASH_ATTN")
    for text, where in picture.waits:
        page.shows(text, where)
    if picture.part is not None:
        page.window.evaluate("name => document.getElementById(name).scrollIntoView()", picture.part)
    file = folder / f"{picture.name}.png"
    page.window.screenshot(path=file)
    context.close()
    return file


def main() -> int:
    """Take all of them."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    if path is None:
        sys.stderr.write("error: no chromium on this machine\n")
        return 2
    FOLDER.mkdir(exist_ok=True)
    with serving() as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for picture in PICTURES:
            file = take(browser, address, picture, FOLDER)
            sys.stdout.write(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size // 1000} kB\n")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
