"""For everybody: without a mouse, without colours, in the dark, on a phone, with a screen reader."""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.serving import FULL, Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SLOW = pytest.mark.slow


def violations(page: Page) -> list[str]:
    """Ask axe-core what keeps people from using the page as it is now."""
    axe = importlib.resources.files("axe_playwright_python") / "axe.min.js"
    page.window.evaluate(axe.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.window.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{one['id']}: {node['html']}" for one in found["violations"] for node in one["nodes"]]


def settled(page: Page) -> Page:
    """Wait until all parts of `FULL` have their answers, and unfold everything."""
    page.shows("1 problem", "#edit-said")
    page.shows("≠", "#otherwise .headline")
    page.shows("Why not", "#obstacles h3")
    page.window.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    return page


@pytest.mark.parametrize(
    ("width", "colours"),
    [
        (1280, "light"),
        pytest.param(1280, "dark", marks=SLOW),
        pytest.param(360, "light", marks=SLOW),
        pytest.param(360, "dark", marks=SLOW),
    ],
)
def test_axe_finds_nothing(browser: Browser, address: str, width: int, colours: Any) -> None:  # noqa: ANN401
    """With every part of the page in use and unfolded."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=colours)
    try:
        assert violations(settled(Page(context, address).open(FULL))) == []
    finally:
        context.close()


def test_axe_finds_nothing_where_the_question_is_wrong(page: Page) -> None:
    """Nor where the service has refused it."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page.open("machine=h100&request.num_heads=many&config=defualt%3A+TORCH_SDPA&if=platform%3Dcudda")
    page.shows("no key `defualt`", "#question .note")

    assert violations(page) == []


@pytest.mark.parametrize("width", [360, pytest.param(600, marks=SLOW), pytest.param(1024, marks=SLOW)])
def test_a_narrow_screen_needs_no_scrolling_sideways(browser: Browser, address: str, width: int) -> None:
    """Whatever is unfolded; nothing stands out of its box."""
    context = browser.new_context(viewport={"width": width, "height": 740}, device_scale_factor=2, has_touch=True)
    try:
        page = settled(Page(context, address).open(FULL))
        assert page.window.evaluate("document.documentElement.scrollWidth") == width
        outside = page.window.evaluate(
            "[...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1"
            " && !one.closest('pre, textarea, .text, thead')).map(one => one.outerHTML.slice(0, 80))"
        )
        assert outside == []
    finally:
        context.close()


def test_dark_and_light_follow_the_system_until_somebody_chooses(browser: Browser, address: str) -> None:
    """What was chosen is kept for the next time."""
    context = browser.new_context(color_scheme="dark")
    try:
        page = Page(context, address).open()
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = page.window.evaluate(paper)
        page.window.emulate_media(color_scheme="light")
        light = page.window.evaluate(paper)
        assert (dark, light) == ("rgb(20, 23, 26)", "rgb(255, 255, 255)")

        page.fill("Colours", "dark")

        assert page.window.evaluate(paper) == dark
        page.window.reload()
        page.shows("CUDNN_ATTN")
        assert page.window.evaluate(paper) == dark
        page.fill("Colours", "system")
        assert page.window.evaluate(paper) == light
    finally:
        context.close()


def test_all_of_it_is_reached_with_the_keyboard(page: Page) -> None:
    """In order; where the keys are is seen, and what takes text lets them go."""
    page.open("machine=h100&request.model=WanPipeline")
    keys = page.window.keyboard
    keys.press("Tab")
    assert focused(page) == "Skip to the decision"
    keys.press("Enter")
    assert page.window.evaluate("document.activeElement.id") == "answer"
    assert "machine=h100" in page.window.url

    reach(page, "Copy the command")

    assert page.window.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    reach(page, "Why not CUDNN_ATTN?")
    keys.press("Space")
    page.shows("Why not CUDNN_ATTN?", "#obstacles h3")
    reach(page, "Edits, as YAML")
    keys.type("table: platform_default\nedits: [")
    page.shows("problem", "#edit-said")
    keys.press("Tab")
    assert focused(page).startswith("line ")  # the button that goes to the problem


@SLOW
def test_a_second_world_is_made_with_the_keyboard(page: Page) -> None:
    """What is added has the focus; where it is taken away, the focus stays near."""
    page.open("machine=h100&request.model=WanPipeline")
    keys = page.window.keyboard
    reach(page, "Machine")
    keys.press("b")
    page.shows("TRTLLM_ATTN")

    reach(page, "Add a fact that is otherwise")
    keys.press("Enter")
    assert focused(page) == "Fact 1"
    keys.type("arch")
    keys.press("Tab")
    keys.type("sm_90")

    page.shows("≠ FLASH_ATTN", "#otherwise .headline")
    keys.press("Tab")
    keys.press("Enter")
    assert focused(page) == "Add a fact that is otherwise"


def focused(page: Page) -> str:
    """Give the name of what has the focus."""
    name: str = page.window.evaluate(
        "(one => one.labels?.[0]?.textContent ?? one.getAttribute('aria-label') ?? one.textContent)"
        "(document.activeElement)"
    )
    return name.strip()


def reach(page: Page, name: str, *, backwards: bool = False) -> None:
    """Go to a control by the key that goes from one to the next."""
    for _ in range(150):
        if focused(page) == name:
            return
        page.window.keyboard.press("Shift+Tab" if backwards else "Tab")
    pytest.fail(f"no way to {name} with the keyboard")


def test_the_decision_is_read_out_in_one_sentence(page: Page) -> None:
    """Also where there are warnings; headings and landmarks have names."""
    page.open("machine=h100&backend=SAGE_ATTN_3")

    live = page.window.locator("#headline")
    assert live.get_attribute("aria-live") == "polite"
    assert live.inner_text() == "TORCH_SDPA – with a warning"
    page.shows("⚠ Warning: SAGE_ATTN_3 cannot run here", "#decision")
    for name in ("Question", "Decision", "Tables", "What if?", "Why not?", "Edit a table"):
        assert page.window.get_by_role("region", name=name, exact=True).count() == 1
    assert page.window.get_by_role("heading", level=1).inner_text() == "attention-selector"
