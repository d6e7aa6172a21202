"""The example of a backend from another distribution: built, installed, chosen, run, and put through the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third_party_backend"
RUN = """
import itertools, json, sys, torch, warnings
warnings.simplefilter("ignore")
from backends.conformance import run
from backends.interface import Geometry
from backends.reference import attention as definition
from backends.registry import available, load
from flex_backend import RULES
from selector import Attention, Selector
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes

selector = Selector(rules=RULES, backend="FLEX_ATTENTION", environment={})
layer, errors = Attention("self", selector=selector), []
for kind, causal in itertools.product(MASKS, ALIGNMENTS):
    sizes = Sizes(dtype=torch.float32, kv_heads=2)
    q, k, v = sizes.qkv()
    mask = MASKS[kind](sizes)
    got, wanted = layer(q, k, v, mask=mask, causal=causal), definition(q, k, v, mask=mask, causal=causal)
    errors.append((got.double() - wanted).abs().max().item())
reports = [run(load("FLEX_ATTENTION"), {}, Geometry(64, 4, kv_heads, dtype, "cpu"))
           for kv_heads in (4, 2) for dtype in ("bfloat16", "float32")]
json.dump({"from": available()["FLEX_ATTENTION"], "ran": sorted({ran.backend for ran in layer.report()}),
           "error": max(errors), "failed": [str(one) for report in reports for one in report.failed],
           "counts": [dict(report.counts) for report in reports]}, sys.stdout)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example's wheel from a copy and install it into a folder of its own."""
    made = tmp_path_factory.mktemp("third")
    shutil.copytree(EXAMPLE, made / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "dist"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index")
    subprocess.run([*pip, "--no-build-isolation", "--target", made / "site", made / "source"], check=True)
    return made / "site"


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the example installed beside this tree."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ATTENTION_SELECTOR")},
        "PYTHONPATH": os.pathsep.join([str(home), str(ROOT)]),
    }
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, check=False, timeout=300, cwd=home
    )


def rules(home: Path) -> str:
    """Ask the example for its rules, as its page says."""
    done = run(home, "-m", "flex_backend")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_chosen_where_it_is_named(home: Path) -> None:
    """By the row of its own rules, on this machine."""
    done = run(
        home, "-m", "selector", "explain", "--rules", rules(home), "--diffusion-attention-backend", "FLEX_ATTENTION"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Using diffusion attention backend 'FLEX_ATTENTION'\n")


def test_its_rules_are_sound_and_its_scenarios_pass(home: Path) -> None:
    """With the commands that its page shows."""
    for command in ("validate", "lint", "test"):
        done = run(home, "-m", "selector", command, "--rules", rules(home))
        assert (command, done.returncode, done.stderr) == (command, 0, "")


def test_it_runs_through_the_dispatch_and_passes_the_kit(home: Path) -> None:
    """Every kind of mask and alignment, and every check in bfloat16 and float32, with grouped heads and without."""
    done = run(home, "-c", RUN)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout[done.stdout.index("{") :])
    assert (told["from"], told["ran"], told["failed"]) == ("flex-attention-backend", ["FLEX_ATTENTION"], [])
    assert told["error"] < 1e-4
    assert all(counts["passed"] > 20 for counts in told["counts"])


def test_a_name_that_two_distributions_take_is_told_with_both(home: Path) -> None:
    """Neither goes before the other."""
    other = home.parent / "other" / "impostor-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: impostor\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[attention_selector.backends]\nFLEX_ATTENTION = nowhere:BACKEND\n")
    code = (
        f"import sys; sys.path.insert(0, {str(other.parent)!r})\n"
        "from backends.registry import load; load('FLEX_ATTENTION')"
    )

    done = run(home, "-c", code)

    assert "wanted one distribution that offers it, got `flex-attention-backend` and `impostor`" in done.stderr


def test_one_that_does_not_import_is_told_and_harms_nothing_else(home: Path) -> None:
    """A backend that is named and broken is refused with its reason; others run."""
    broken = home.parent / "broken"
    shutil.copytree(home, broken)
    module = broken / "flex_backend" / "__init__.py"
    module.write_text("raise RuntimeError('half installed')\n")
    code = (
        "import torch; from selector import Selector, attention\n"
        "x = torch.randn(1, 4, 2, 16)\n"
        f"rules = {str(broken / 'flex_backend' / 'rules')!r}\n"
        "print(attention(x, x, x, selector=Selector(rules=rules)).shape)\n"
        "attention(x, x, x, selector=Selector(rules=rules, backend='FLEX_ATTENTION'))\n"
    )

    done = run(broken, "-c", code)

    assert "torch.Size([1, 4, 2, 16])" in done.stdout
    assert (
        "backend `FLEX_ATTENTION` of `flex-attention-backend` does not load: RuntimeError: half installed"
        in done.stderr
    )
