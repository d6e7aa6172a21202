"""The folder that `init` writes: its edits do what docs/overlays.md says, and nothing else."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from backends import masks, registry, samples
from backends.interface import BindError, CallRefused, Geometry
from backends.reference import attention as definition
from selector import RuleSet, Selector, attention, data, load_rules, logs
from selector.dispatch import plan_for
from selector.rules.vocabulary import Value
from selector.ruleset import shipped
from tests.selector.command.runs import ask
from tests.selector.conftest import FA3, FA4, cuda, decide

ROOT = Path(__file__).parents[2]
STARTER = data.folder("rules") / "starter"
FILES = sorted(path.name for path in STARTER.glob("*.yaml"))
CONFORMANCE = sorted((ROOT / "tests" / "conformance").glob("*.jsonl"))
PAGE = (ROOT / "docs" / "overlays.md").read_text(encoding="utf-8")
ACME = {"acme-attn": "1.0"}
KINDS = [kind for kind in shipped().vocabulary.facts["mask"].values if kind not in ("none", "all_keep")]


@pytest.fixture(scope="module")
def starter() -> RuleSet:
    """Give the shipped rules with all three edits."""
    return load_rules([STARTER])


def one(number: int, folder: Path) -> RuleSet:
    """Give the shipped rules with the files of one edit alone."""
    for name in FILES:
        if name.startswith(f"{number}-"):
            shutil.copy(STARTER / name, folder)
    return load_rules([folder])


def decided(facts: Mapping[str, object], rules: RuleSet | None = None, **request: Value) -> tuple[str | None, ...]:
    """Give backend and row for a layer with heads of 128."""
    decision = decide(facts, {"head_dim": 128, **request}, rules=rules)
    return decision.backend, decision.rule


def answers(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[dict[str, Any]]:
    """Decide every line of a file."""
    return [json.loads(line) for line in ask(capsys, "decide", str(path), *flags).out.splitlines()]


# --- it loads ---


def test_the_starter_loads_whole_and_edit_by_edit(starter: RuleSet, tmp_path: Path) -> None:
    """So that what is not wanted can be deleted; no edit undoes another."""
    assert starter.notices == ()
    for number in (10, 20, 30):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert one(number, folder).digest not in (starter.digest, shipped().digest)


def test_the_page_shows_every_file_of_it() -> None:
    """As it is."""
    assert re.findall(r"<!-- shown rules/starter/(\S+) -->", PAGE) == [
        *(name for name in FILES if not name.startswith("30-")),
        *("30-acme.vocabulary.yaml", "30-acme.backends.yaml", "30-acme.default.yaml", "30-acme.call.yaml"),
    ]


# --- what the edits do ---


def test_a_new_generation_is_treated_like_its_family(tmp_path: Path) -> None:
    """With a warning that nobody has tested it."""
    new, rules = cuda("sm_131", cudnn=91900), one(10, tmp_path)

    assert decided(new) == ("TORCH_SDPA", "platform_default/torch-sdpa")
    assert decided(new, rules) == ("CUDNN_ATTN", "platform_default/blackwell-cudnn")
    (warning,) = decide(new, rules=rules).warnings
    assert warning.startswith("sm_131 is a variant of Blackwell that nobody has tested")
    assert decided(cuda("sm_140"), rules) == decided(cuda("sm_140"))


def test_another_order_on_blackwell(tmp_path: Path) -> None:
    """Where FlashAttention 4 is installed; elsewhere cuDNN goes first, as before."""
    rules = one(20, tmp_path)

    assert decided(cuda("sm_120", FA4)) == ("CUDNN_ATTN", "platform_default/blackwell-cudnn")
    assert decided(cuda("sm_120", FA4), rules) == ("FLASH_ATTN", "platform_default/blackwell-flash-attn-4")
    for facts in (cuda("sm_120"), cuda("sm_120", {"flash-attn-4": "4.0.0b17"}), cuda("sm_90", FA3 | FA4)):
        assert decided(facts, rules) == decided(facts)


def test_a_backend_of_ones_own(tmp_path: Path) -> None:
    """It is a default on Hopper where its package is, for what it can run; a mask is given to TORCH_SDPA."""
    rules, here = one(30, tmp_path), cuda("sm_90", FA3 | ACME)

    assert decided(here, rules) == ("ACME_ATTN", "platform_default/hopper-acme")
    assert decided(here, rules, head_dim=96) == ("FLASH_ATTN", "platform_default/hopper-flash-attn")
    assert decided(here, rules, dtype="float32") == ("TORCH_SDPA", "platform_default/torch-sdpa")
    assert decided(cuda("sm_120", ACME), rules) == decided(cuda("sm_120"))
    for mask in KINDS:
        decision = decide(here, {"head_dim": 128, "call": {"mask": mask, "dtype": "bfloat16"}}, rules=rules)
        assert (decision.backend, decision.rule) == ("TORCH_SDPA", "call/acme-mask")
        assert decision.warnings == (
            f"ACME_ATTN takes no mask, and this call brings one of the kind {mask}: TORCH_SDPA takes the call",
        )


def test_it_may_be_named(starter: RuleSet) -> None:
    """Where it cannot run, that is refused."""
    assert decide(cuda("sm_90", ACME), backend="acme_attn", rules=starter).rule == "explicit/able"

    refused = decide(cuda("sm_120", ACME), backend="ACME_ATTN", rules=starter)

    assert refused.error is not None
    assert refused.error.message.startswith("ACME_ATTN cannot run here (arch: wanted hopper (sm_90), got sm_120")


@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.name)
def test_machines_that_no_edit_is_about_decide_as_before(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the conformance files, where texts name what is new. Others change by the new order alone."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    before, after = answers(path, capsys), answers(path, capsys, "--rules", str(STARTER), "--trace")

    assert len(before) == len(after) == len(lines)
    changed = 0
    for line, old, traced in zip(lines, before, after, strict=True):
        text = json.dumps({key: traced[key] for key in old})
        new = json.loads(text.replace("sm_12x, sm_13x", "sm_12x").replace("TRTLLM_ATTN, ACME_ATTN", "TRTLLM_ATTN"))
        if "flash-attn-4" not in line["facts"].get("packages", {}) or not blackwell(line["facts"].get("arch")):
            assert new == old
        elif new != old:
            changed += 1
            chosen = [row["row"] for walk in traced["trace"] for row in walk["rows"] if row["outcome"] == "chosen"]
            assert (old["source"], "blackwell-flash-attn-4" in chosen) == ("platform", True)
    assert changed


def blackwell(arch: str | None) -> bool:
    """Whether the shipped rules take an architecture for Blackwell."""
    return arch is not None and arch[:-1] in ("sm_10", "sm_11", "sm_12")


# --- the kernel of the page ---


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Install what the page shows: its module, under the entry point that its project file names."""
    (module,) = re.findall(r"<!-- file acme_attn\.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    ((name, value),) = tomllib.loads(project)["project"]["entry-points"][registry.GROUP].items()
    (tmp_path / "acme_attn.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    points = (*registry.installed(), EntryPoint(name, value, registry.GROUP))
    monkeypatch.setattr(registry, "installed", lambda: points)
    logs.forget()
    yield importlib.import_module("acme_attn")
    sys.modules.pop("acme_attn", None)
    logs.forget()


def geometry(**changes: Any) -> Geometry:  # noqa: ANN401
    """Give a geometry that the kernel takes."""
    given = {"head_dim": 64, "num_heads": 4, "num_kv_heads": 2, "dtype": "float32", "device": "cpu"}
    return Geometry(**{**given, **changes})


@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
@pytest.mark.parametrize("lengths", [(12, 12), (8, 12), (12, 8)])
def test_the_kernel_of_the_page_binds_and_is_right(acme: ModuleType, causal: Any, lengths: tuple[int, int]) -> None:  # noqa: ANN401
    """Both alignments, fewer KV heads than heads, queries that see no key, and a scale."""
    q, k, v = samples.tensors(lengths, (4, 2), 64, "float32")

    kernel = registry.load("ACME_ATTN").bind({}, geometry())

    for scale in (None, 0.7):
        for mask in (None, masks.all_keep()):
            got = kernel(q, k, v, mask=mask, causal=causal, scale=scale)
            wanted = definition(q, k, v, causal=causal, scale=scale)
            torch.testing.assert_close(got.double(), wanted, atol=1e-5, rtol=1e-5)


def test_the_kernel_of_the_page_refuses_what_it_does_not_honour(acme: ModuleType) -> None:
    """When it is bound, or when it is called."""
    backend = registry.load("ACME_ATTN")
    q, k, v = samples.tensors((12, 12), (4, 2), 64, "float32")

    with pytest.raises(BindError, match=r"wanted no option and head_dim 64 or 128, got \{\}, 96"):
        backend.bind({}, geometry(head_dim=96))
    with pytest.raises(BindError, match=r"got \{'x': 1\}, 64"):
        backend.bind({"x": 1}, geometry())
    with pytest.raises(CallRefused, match="got one of the kind suffix_key_padding"):
        backend.bind({}, geometry())(q, k, v, mask=masks.key_lengths(7, 12))


def test_attention_runs_on_the_backend_of_the_page(acme: ModuleType, starter: RuleSet) -> None:
    """By default where the rules say so; a call with a mask gets TORCH_SDPA, with the warning."""
    here = Selector(rules=starter, facts=cuda("sm_90", ACME), environment={})
    q, k, v = samples.tensors((12, 12), (4, 2), 64, "bfloat16")
    padding = masks.key_padding(torch.arange(12)[None] < 7)

    plain, masked = plan_for(q, k, v, selector=here), plan_for(q, k, v, mask=padding, selector=here)

    assert (plain.decision.backend, masked.decision.backend) == ("ACME_ATTN", "TORCH_SDPA")
    assert masked.decision.rule == "call/acme-mask"
    for mask in (None, padding):
        got = attention(q, k, v, mask=mask, selector=here)
        torch.testing.assert_close(got.double(), definition(q, k, v, mask=mask), atol=0.03, rtol=0.03)


def test_without_the_package_the_next_row_decides(starter: RuleSet) -> None:
    """A default that does not bind counts as absent, and the machine is asked again, with a warning."""
    here = Selector(rules=starter, facts=cuda("sm_90", ACME), environment={})
    q, k, v = samples.tensors((12, 12), (4, 2), 64, "bfloat16")

    decision = plan_for(q, k, v, selector=here).decision

    assert decision.backend == "TORCH_SDPA"
    assert decision.warnings[0].startswith("ACME_ATTN was chosen by default, but its kernel does not bind: backend")
