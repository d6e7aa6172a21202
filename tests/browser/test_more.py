"""Why not, what if, the editor, and the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.serving import EDIT, Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

H100 = "machine=h100&request.model=WanPipeline"
UNFINISHED = EDIT.partition("  use:")[0]


def test_why_not_tells_what_is_in_the_way_and_what_would_be_enough(page: Page) -> None:
    """For the backend whose button is pressed; pressed again, it is gone."""
    page.open(H100)
    button = page.window.get_by_role("button", name="Why not CUDNN_ATTN?")

    button.click()

    page.shows("arch: wanted blackwell_class (sm_10x, sm_11x, sm_12x), got sm_90", "#obstacles")
    page.shows("Named in the config, it runs (explicit/able)", "#obstacles")
    page.shows("--why-not CUDNN_ATTN", "#command")
    assert button.get_attribute("aria-pressed") == "true"
    page.window.get_by_label("also changes that nobody makes").check()
    page.shows("So that it is chosen by default", "#obstacles")
    button.click()
    assert page.window.locator("#obstacles").inner_text() == ""
    page.window.get_by_role("button", name="Why not FLASH_ATTN?").click()
    page.shows("FLASH_ATTN is what runs", "#obstacles-said")


def test_a_second_world_is_shown_beside_this_one(page: Page) -> None:
    """With what differs of the decision, and of each row."""
    page.open(H100)
    page.window.get_by_role("button", name="Add a fact that is otherwise").click()
    page.fill("Fact 1", "arch")
    page.fill("Value 1", "sm_120")

    page.shows("CUDNN_ATTN", "#otherwise")

    page.shows("≠ CUDNN_ATTN", "#otherwise .headline")
    page.shows("Where arch sm_120, now sm_90: CUDNN_ATTN.", "#otherwise-said")
    assert "≠ what if: ✓ chosen" in page.row("blackwell-cudnn").inner_text()
    assert "≠" not in page.row("torch-sdpa").inner_text()
    page.shows("--what-if arch=sm_120", "#command")
    page.fill("Fact 1", "platform")
    page.fill("Value 1", "cudda")
    page.shows("did you mean `cuda`?", "#otherwise")
    page.shows("FLASH_ATTN (fa3)")
    page.window.get_by_role("button", name="Remove change 1").click()
    assert page.window.locator("#otherwise").inner_text() == ""


def test_a_problem_of_an_edit_stands_at_its_place(page: Page) -> None:
    """As it is typed: the line is marked, the column shown, and a button goes there."""
    page.open(H100)

    page.fill("Edits, as YAML", EDIT.replace("arch", "arhc"))

    page.shows("no fact `arhc` (did you mean `arch`?)", "#edit-said")
    assert page.window.locator(".gutter .wrong").inner_text().split() == ["✗", "5"]
    assert page.window.locator(".excerpt").inner_text().splitlines() == ["  when: {arhc: sm_90}", "         ^"]
    page.window.get_by_role("button", name="line 5, column 10").click()
    area = page.window.get_by_label("Edits, as YAML")
    assert area.evaluate("one => [document.activeElement === one, one.selectionStart]") == [True, len(UNFINISHED) - 13]


def test_a_good_edit_shows_what_it_changes(page: Page) -> None:
    """In which situations, before and after."""
    page.open(H100)
    page.fill("Edits, as YAML", UNFINISHED)
    page.shows("wanted an action beside `when`, got none", "#edit-said")

    page.fill("Edits, as YAML", EDIT)

    page.shows("The text is valid", "#edit-said")
    page.shows("regions in which a decision changes", "#editor")
    changed = page.window.get_by_role("table", name="Situations in which a decision changes").inner_text()
    assert "use FLASH_ATTN (hopper-flash-attn)" in changed
    assert "use CUDNN_ATTN (ours)" in changed


@pytest.mark.slow
def test_edits_begin_from_the_rows_of_a_table(page: Page) -> None:
    """Each way of editing one gives a text that loads, except that the last row cannot go."""
    page.open()
    page.fill("Table", "platform_default")
    page.fill("Row", "hopper-flash-attn")
    for name in ("Put a row before it", "Replace it", "Take it out"):
        page.window.get_by_role("button", name="Clear the text").click()
        page.window.get_by_role("button", name=name).click()
        page.shows("The text is valid", "#edit-said")
    page.fill("Row", "torch-sdpa")
    page.window.get_by_role("button", name="Take it out").click()
    page.shows("has no last resort", "#edit-said")


def test_a_link_restores_all_of_it_for_somebody_else(page: Page, browser: Browser, address: str) -> None:
    """In a browser that was never here."""
    typed(page.open("machine=h100"))
    parts = ("#headline", "#decision", "#command", "#walks", "#otherwise", "#obstacles", "#editor")
    shown = [whole(page).window.locator(part).inner_text() for part in parts]

    other = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        second = whole(Page(other, address).open(page.window.url.partition("#")[2]))
        assert [second.window.locator(part).inner_text() for part in parts] == shown
        assert second.window.get_by_label("mask", exact=True).input_value() == "key_padding"
        assert second.window.url == page.window.url
    finally:
        other.close()


def typed(page: Page) -> None:
    """Ask for something in every part of the page."""
    page.fill("model", "WanPipeline")
    page.fill("dtype", "bfloat16")
    page.window.get_by_text("Ask about a call too").click()
    page.fill("mask", "key_padding")
    page.fill("Config, as YAML or JSON", "per_role:\n  cross: TORCH_SDPA # ours & theirs")
    page.window.get_by_role("button", name="Why not SAGE_ATTN?").click()
    page.window.get_by_role("button", name="Add a fact that is otherwise").click()
    page.fill("Fact 1", "packages.flash-attn-3")
    page.fill("Value 1", "null")
    page.fill("Edits, as YAML", EDIT)


def whole(page: Page) -> Page:
    """Wait until each part has its answer."""
    page.shows("regions in which a decision changes", "#editor")
    page.shows("Why not SAGE_ATTN?", "#obstacles h3")
    page.shows("≠", "#otherwise .headline")
    page.shows("--mask key_padding", "#command")
    return page


def test_back_and_forward_go_through_the_questions(page: Page) -> None:
    """Typing into one control is one step."""
    page.open("machine=b200&request.model=WanPipeline")
    page.shows("TRTLLM_ATTN")
    page.fill("Machine", "h100")
    page.shows("FLASH_ATTN (fa3)")
    page.window.get_by_label("head_dim", exact=True).press_sequentially("257")
    page.shows("TORCH_SDPA")

    page.window.go_back()
    page.shows("FLASH_ATTN (fa3)")
    assert page.window.get_by_label("head_dim", exact=True).input_value() == ""
    page.window.go_back()
    page.shows("TRTLLM_ATTN")
    page.window.go_forward()
    page.shows("FLASH_ATTN (fa3)")


def test_a_link_is_only_text(page: Page) -> None:
    """Whatever it holds, nothing of it becomes a part of the page."""
    sign = "%3Cimg+src%3Dx+onerror%3Ddocument.title%3D1%3E"
    page.open(f"machine={sign}&request.model={sign}&edit={sign}&why_not={sign}&if={sign}%3D{sign}")

    page.shows("This service knows no machine <img", "#decision")
    page.fill("Machine", "b200")
    page.shows("CUDNN_ATTN")
    page.shows("no backend `<img", "#obstacles")
    page.shows("no fact `<img", "#otherwise")
    page.fill("Config, as YAML or JSON", "<img src=x>: <img src=y>")
    page.shows("no key `<img", "#question")
    assert page.window.locator("img").count() == 0
    assert page.window.title() == "attention-selector"
