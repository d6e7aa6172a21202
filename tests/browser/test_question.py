"""The question, its decision and the tables."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.browser.serving import EDIT, Page, serving

WIDE = {"PATH": f"{sysconfig.get_path('scripts')}:/usr/bin:/bin", "COLUMNS": "300"}


def test_choosing_a_machine_a_model_and_a_role_changes_the_decision(page: Page) -> None:
    """The answer, its log line, and the row that is chosen."""
    page.open()
    page.fill("Machine", "b200")
    page.fill("model", "WanPipeline")
    page.shows("TRTLLM_ATTN")
    page.shows("(datacenter Blackwell sm_100, head_dim 128)", "#decision")
    assert "chosen" in page.row("blackwell-datacenter-trtllm").inner_text()

    page.fill("Machine", "h100")
    page.shows("FLASH_ATTN (fa3)")

    passed = page.row("blackwell-cudnn").inner_text()
    assert "rejected" in passed
    assert "arch: wanted blackwell_class (sm_10x, sm_11x, sm_12x), got sm_90" in passed
    assert "not reached" in page.row("torch-sdpa").inner_text()
    page.fill("Config, as YAML or JSON", "per_role: {cross: TORCH_SDPA}")
    page.fill("role", "cross")
    page.shows("TORCH_SDPA")
    assert "chosen" in page.row("able", "explicit for TORCH_SDPA").inner_text()


def test_what_is_not_known_and_would_matter_is_told(page: Page) -> None:
    """With what is still possible."""
    page.open("machine=b200&request.model=WanPipeline")

    page.window.get_by_text("What is still possible, by dtype").click()

    possible = page.window.get_by_role("table", name="What is still possible")
    assert "dtype full (float32, float64)" in possible.inner_text()
    page.fill("dtype", "float32")
    page.shows("TORCH_SDPA")


def test_facts_of_ones_own_are_read_by_the_service(page: Page) -> None:
    """As YAML; what is wrong stands at the control, with its place."""
    page.open()
    page.fill("Machine", "own")
    page.shows("not valid")
    page.fill("Facts, as YAML or JSON", "platform: cuda\narch: sm_90\ncudnn: 91900\npackages: {flash-attn: 2.8.3}\n")
    page.shows("FLASH_ATTN (fa2)")

    page.fill("Facts, as YAML or JSON", "platform: cuda\nach: sm_90\n")

    page.shows("line 2, column 1: no key `ach` here (did you mean `arch`?)", "#question")
    assert page.window.get_by_label("Facts, as YAML or JSON").get_attribute("aria-invalid") == "true"


def test_what_is_refused_stands_at_its_control(page: Page) -> None:
    """In the words of the service; mended, it is gone."""
    page.open("machine=h100")

    page.fill("head_dim", "many")

    page.shows("The question is not valid")
    page.shows("wanted an integer or `symbolic`, got the string `many`", "#question .note")
    page.fill("head_dim", "64")
    page.shows("FLASH_ATTN")
    assert page.window.locator("[aria-invalid]").count() == 0


def test_a_refusal_is_told_as_a_decision(page: Page) -> None:
    """A backend that cannot run here is refused, with its reasons."""
    page.open("machine=h100&backend=SAGE_ATTN")

    page.shows("Refused")
    assert "packages.sageattention: wanted present, got null" in page.row("able", "explicit for SAGE_ATTN").inner_text()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("machine=b200&request.model=WanPipeline&request.mask_free=true", "attention-selector explain"),
        ("machine=h100&request.head_dim=64&call.mask=key_padding&request.causal=top_left", "--mask key_padding"),
        ("machine=h100&request.role=it%27s&backend=TORCH_SDPA&policy=strict", r"--role 'it'\''s'"),
        ("machine=h100&call.lse=true&call.mask=none", "attention-selector decide"),
        pytest.param("machine=host", "attention-selector explain", marks=pytest.mark.slow),
    ],
)
def test_the_command_says_the_same(page: Page, state: str, said: str) -> None:
    """Run, it gives the decision that is shown."""
    page.open(state)
    command = page.window.locator("#command").inner_text()

    done = subprocess.run(["/bin/bash", "-c", command], env=WIDE, capture_output=True, encoding="utf-8", check=True)

    assert said in command
    assert page.window.locator("#decision .log").inner_text() in done.stdout


@pytest.mark.slow
def test_a_service_that_is_away_is_said_to_be(page: Page) -> None:
    """And asked again when it is back."""
    with serving() as (address, port):
        page.address = address
        page.open("machine=b200")
    page.fill("model", "WanPipeline")
    page.shows("The service does not answer", "#banner")

    with serving(port):
        page.shows("TRTLLM_ATTN")
        assert page.window.locator("#banner").inner_text() == ""
    page.complaints = [text for text in page.complaints if "ERR_CONNECTION_REFUSED" not in text]


@pytest.mark.slow
def test_newer_rules_are_shown_as_soon_as_they_decide(page: Page, tmp_path: Path) -> None:
    """With their own rows and reasons, without the page being loaded again."""
    rules = tmp_path / "ours.yaml"
    rules.write_text(EDIT.replace("sm_90", "sm_80"), encoding="utf-8")
    with serving(folders=(str(tmp_path),), token="secret") as (address, _):  # noqa: S106 - of this test
        page.address = address
        page.open("machine=h100")
        page.shows("FLASH_ATTN")
        rules.write_text(EDIT, encoding="utf-8")
        page.window.request.post(f"{address}v1/rules/reload", headers={"authorization": "Bearer secret"})

        page.fill("model", "WanPipeline")

        page.shows("CUDNN_ATTN")
        assert "Measured." in page.row("ours").inner_text()


def test_the_page_loads_nothing_from_elsewhere(page: Page) -> None:
    """Each file comes from the service, and may load nothing but what it serves."""
    asked: list[str] = []
    page.window.on("request", lambda request: asked.append(request.url))

    page.open()

    assert [url for url in asked if not url.startswith(page.address)] == []
    answer = page.window.request.get(page.address)
    assert "script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    names = [file.name for file in (Path(__file__).parents[2] / "selector/service/page").iterdir()]
    for name in names:
        found = page.window.request.get(f"{page.address}page/{name}")
        assert found.status == (404 if name == "index.html" else 200)
