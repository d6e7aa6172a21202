"""`attention-selector selftest`: each backend that may run here is checked, and the others say why they may not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends.conformance import ALL, OUTCOMES, Result
from backends.flash_attn import FlashAttention
from backends.interface import Backend, BindError, Geometry
from backends.torch_sdpa import BACKEND as TORCH_SDPA
from selector import Selector
from selector.command import selftest as command
from selector.dispatch.selftest import Asked, Checked, Selftest, Unusable, on_device, selftest, usable
from selector.ruleset import shipped
from tests.backends.broken import FAULTS, Broken, Plain
from tests.backends.fakes import flash2, flash3_forward
from tests.backends.fakes.flash_packages import ON_CPU, packages
from tests.selector.command.runs import ask
from tests.selector.conftest import FA2, FA3, SAGE3, cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from backends.interface import Kernel

FLASH = FlashAttention(ON_CPU, packages({"flash_attn": flash2, "fa3_fwd_interface": flash3_forward}))
SHORT = ("--backend", "torch_sdpa", "--head-dim", "64", "--dtype", "bfloat16")
NO_LSE = "`with_lse`: wanted a kernel that has it, got one that gives no log-sum-exp"
GEOMETRY = Geometry(64, 4, 4, "bfloat16", "cpu")


def on(facts: Mapping[str, object]) -> Selector:
    """Give a selector for another machine; what it runs computes on the CPU."""
    return Selector(facts=facts, environment={})


def found(facts: Mapping[str, object], asked: Asked, backend: Backend) -> list[Checked | Unusable]:
    """Test one backend on another machine."""

    def load(name: str) -> Backend:
        assert name == backend.name
        return backend

    return list(usable(on(facts), asked, "cpu", load))


# --- what is tested ---


def test_each_build_that_the_rules_allow_is_tested() -> None:
    """On Hopper with two of three builds; the third says what it lacks."""
    asked = Asked("FLASH_ATTN", head_dims=[64], dtypes=["bfloat16"])

    third, second, first = found(cuda("sm_90", FA2 | FA3), asked, FLASH)

    assert third == Unusable(
        "FLASH_ATTN", "fa4", "fa4 cannot run here (packages.flash-attn-4: wanted present, got null)"
    )
    for tested, name in ((second, "fa3"), (first, "fa2")):
        assert isinstance(tested, Checked)
        assert (tested.provider, tested.good, tested.counts["failed"]) == (name, True, 0)
        assert tested.counts["passed"] > 60


def test_each_check_runs_once_in_each_geometry() -> None:
    """Also where it brings a geometry of its own, which another round has looked at already."""
    asked = Asked("FLASH_ATTN", "fa2", head_dims=[64, 72], dtypes=["bfloat16"])

    (tested,) = found(cuda("sm_90", FA2), asked, FLASH)

    assert isinstance(tested, Checked)
    pairs = [(result.check, result.geometry) for result in tested.results]
    assert len(set(pairs)) == len(pairs)
    assert len(pairs) == 4 * len(ALL) - 4
    assert sum(tested.counts.values()) == len(pairs)


def test_geometries_that_the_rules_exclude_are_left_out() -> None:
    """A head_dim above the most, and a type."""
    asked = Asked("FLASH_ATTN", "fa2", head_dims=[64, 264], dtypes=["float32", "float16"], checks=["dense"])

    (tested,) = found(cuda("sm_90", FA2), asked, FLASH)

    assert isinstance(tested, Checked)
    assert {(result.geometry.head_dim, result.geometry.dtype) for result in tested.results} == {(64, "float16")}


@pytest.mark.parametrize(
    ("facts", "asked", "reason"),
    [
        (
            cuda("sm_90"),
            Asked("FLASH_ATTN"),
            "FLASH_ATTN cannot run here, so TORCH_SDPA takes its place (packages.flash-",
        ),
        (cuda("sm_90", FA2), Asked("FLASH_ATTN", head_dims=[264, 63]), "FLASH_ATTN cannot run here, so TORCH_SDPA"),
        (cuda("sm_90", SAGE3), Asked("SAGE_ATTN"), "SAGE_ATTN cannot run here (packages.sageattention: wanted present"),
    ],
)
def test_what_is_not_usable_says_so_in_the_words_of_the_rules(
    facts: Mapping[str, object], asked: Asked, reason: str
) -> None:
    """Nothing is loaded for it."""
    (one,) = found(facts, asked, FLASH)

    assert isinstance(one, Unusable)
    assert one.reason.startswith(reason)


def test_a_backend_that_does_not_load_is_not_usable() -> None:
    """The rules name it, and no distribution offers it."""

    def load(name: str) -> Backend:
        raise BindError(f"backend `{name}`: wanted the name of an installed backend, got none")

    (one,) = usable(on(cuda("sm_90", FA2)), Asked("FLASH_ATTN"), "cpu", load)

    assert one == Unusable(
        "FLASH_ATTN", None, "backend `FLASH_ATTN`: wanted the name of an installed backend, got none"
    )


class NeverBound:
    """A backend whose package is broken."""

    name = "TORCH_SDPA"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`."""
        raise BindError("no kernel image")


@pytest.mark.parametrize(
    ("backend", "good"),
    [(TORCH_SDPA, True), (NeverBound(), False), (Broken(FAULTS["scale dropped"][0], name="TORCH_SDPA"), False)],
    ids=["right", "never bound", "wrong"],
)
def test_what_is_good(backend: Backend, good: bool) -> None:
    """Nothing failed and something was bound: the rules say that it runs here."""
    (tested,) = found(cuda("sm_90"), Asked("TORCH_SDPA", head_dims=[64], dtypes=["bfloat16"]), backend)

    assert isinstance(tested, Checked)
    assert tested.good is good
    assert Selftest("cpu", (tested,), ()).good is good


def test_a_gpu_machine_is_seen_from_its_cpu() -> None:
    """Packages and all else stay; kernels for the GPU are not usable."""
    gpu = on(cuda("sm_90", FA2))

    seen = gpu.on({**gpu.machine, "platform": "cpu", "arch": None, "cudnn": None})

    (one,) = usable(seen, Asked("FLASH_ATTN"), "cpu")
    assert isinstance(one, Unusable)
    assert on_device(shipped(), "cpu").machine["platform"] == "cpu"


# --- the command ---


def test_the_table_and_a_summary(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for all geometries that came to the same; the status is 0."""
    monkeypatch.setattr("backends.registry.load", Plain)
    ran = ask(capsys, "selftest", *SHORT, "--check", "lse", "--check", "no-batch", "--device", "cpu")

    assert (ran.status, ran.err) == (0, "")
    assert [" ".join(line.split()) for line in ran.out.splitlines()] == [
        "backend provider build dtype head_dim heads check outcome wanted got tolerance reason",
        "TORCH_SDPA – – bfloat16 64 4/4, 4/2 no-batch passed an error of at most 0.05 0 0.05",
        f"TORCH_SDPA – – bfloat16 64 4/4, 4/2 lse refused – – – {NO_LSE}",
        "TORCH_SDPA on cpu: 2 passed, 0 failed, 2 refused, 0 cannot bind",
    ]


def test_without_a_backend_all_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    """On a CPU, `TORCH_SDPA` in three types; the others are told with the rules' reason."""
    ran = ask(capsys, "selftest", "--device", "cpu", "--check", "dense")

    assert ran.status == 0
    told = ran.out.splitlines()
    assert [line.split()[3] for line in told[1:4]] == ["bfloat16", "float16", "float32"]
    assert told[4] == "TORCH_SDPA on cpu: 24 passed, 0 failed, 0 refused, 0 cannot bind"
    assert [line.split()[0] for line in told[5:]] == [name for name in shipped().backends if name != "TORCH_SDPA"]
    assert all(" is not usable: " in line for line in told[5:])


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each result by itself."""
    ran = ask(capsys, "selftest", *SHORT, "--check", "dense", "--device", "cpu", "--format", "json")

    told = json.loads(ran.out)
    first = told["results"][0]
    assert 0 < first.pop("error") < 0.05
    assert first.pop("got") != ""
    assert first == {
        "backend": "TORCH_SDPA", "provider": None, "build": None, "dtype": "bfloat16", "head_dim": 64, "num_heads": 4,
        "num_kv_heads": 4, "check": "dense", "outcome": "passed", "wanted": "an error of at most 0.05",
        "tolerance": 0.05,
    }  # fmt: skip
    assert told["summary"] == [
        {
            "backend": "TORCH_SDPA",
            "provider": None,
            "good": True,
            "passed": 2,
            "failed": 0,
            "refused": 0,
            "cannot bind": 0,
        }
    ]
    assert (told["device"], told["not_usable"]) == ("cpu", [])


def a_result(outcome: str = "failed", **more: object) -> Result:
    """Give one result."""
    plain = Result("dense", GEOMETRY, "failed", "an error of at most 0.05", "nan", float("nan"), 0.05, "a|b")
    return replace(plain, outcome=outcome, **more)  # type: ignore[arg-type]


def a_selftest(*results: Result) -> Selftest:
    """Give a selftest of one build, with another that is not usable."""
    counts = {outcome: sum(result.outcome == outcome for result in results) for outcome in OUTCOMES}
    return Selftest("cpu", (Checked("B", "p", results, counts),), (Unusable("C", "q", "no\x1b GPU"),))


FAILED = a_selftest(
    a_result(), a_result(error=0.5, geometry=replace(GEOMETRY, head_dim=72)),
    a_result("failed", error=None, wanted="a tensor", got="int"), a_result("cannot bind", error=None, got="no build"),
)  # fmt: skip


TEXT = r"""
backend  provider  build  dtype     head_dim  heads  check  outcome      wanted                    got  tolerance  reason
B        p         a|b    bfloat16  64, 72    4/4    dense  failed       an error of at most 0.05  nan  0.05
B        p         a|b    bfloat16  64        4/4    dense  failed       a tensor                  –    –          got int
B        p         a|b    bfloat16  64        4/4    dense  cannot bind  –                         –    –          no build
B (p) on cpu: 0 passed, 3 failed, 0 refused, 1 cannot bind
C (q) is not usable: no\x1b GPU
"""  # noqa: E501 - as it is written
MARKDOWN = r"""
| backend | provider | build | dtype | head_dim | heads | check | outcome | wanted | got | tolerance | reason |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| B | p | a\|b | bfloat16 | 64, 72 | 4/4 | dense | failed | an error of at most 0.05 | nan | 0.05 |  |
| B | p | a\|b | bfloat16 | 64 | 4/4 | dense | failed | a tensor | – | – | got int |
| B | p | a\|b | bfloat16 | 64 | 4/4 | dense | cannot bind | – | – | – | no build |

- B (p) on cpu: 0 passed, 3 failed, 0 refused, 1 cannot bind
- C (q) is not usable: no\x1b GPU
"""


@pytest.mark.parametrize(("write", "text"), [(command._text, TEXT), (command._markdown, MARKDOWN)])
def test_failures_are_written(write: Callable[[Selftest], str], text: str) -> None:
    """With the largest error, NaN above all, or what was wanted and got; nothing steers the terminal."""
    assert write(FAILED) == text.removeprefix("\n")


def test_json_has_no_nan() -> None:
    """What is no number is null, beside what was got."""
    first = json.loads(command._json(FAILED))["results"][0]

    assert (first["error"], first["got"]) == (None, "nan")


@pytest.mark.parametrize("write", [command._text, command._markdown])
def test_where_nothing_is_usable_there_is_no_table(write: Callable[[Selftest], str]) -> None:
    """Only the reasons."""
    assert write(Selftest("cpu", (), (Unusable("C", None, "why"),))).splitlines()[-1].endswith("C is not usable: why")
    assert len(write(Selftest("cpu", (), (Unusable("C", None, "why"),))).splitlines()) == 1


def test_a_failure_is_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever else passed."""
    monkeypatch.setattr(command, "selftest", lambda _rules, _asked: FAILED)

    assert ask(capsys, "selftest").status == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "TORCH_SPDA"], "--backend: unknown-backend: no backend `TORCH_SPDA`\n  hint: did you mean `"),
        (["--provider", "fa5"], "--provider: unknown-provider: no provider `fa5`\n  hint: did you mean"),
        (["--backend", "FLASH_ATTN", "--provider", "sage1"], "no provider `sage1`\n  hint: known: fa4, fa3, fa2"),
        (["--backend", "TORCH_SDPA", "--provider", "fa2"], "no provider `fa2`\n  hint: it has one build alone"),
        (["--check", "dens"], "--check: unknown-check: no check `dens`\n  hint: did you mean `dense`?"),
        (["--dtype", "bfloat"], "--dtype: bad-value: `dtype`: wanted one of"),
        (["--head-dim", "0"], "--head-dim: bad-value: `head_dim`: wanted an integer of at least 1"),
        (["--head-dim", "x"], "usage: argument --head-dim: invalid int value: 'x'"),
        (["--device", "cuda:77"], f"--device: no-device: wanted a device that torch {torch.__version__} sees (cpu"),
        (["--device", "tpu"], "got `tpu`"),
    ],
)  # fmt: skip
def test_wrong_input_is_status_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest name."""
    ran = ask(capsys, "selftest", *arguments)

    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_all_that_is_wrong_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """At once."""
    ran = ask(capsys, "selftest", "--backend", "X", "--check", "y", "--dtype", "z")

    assert [line.split(":")[0] for line in ran.err.splitlines() if line[0] != " "] == [
        "--backend",
        "--check",
        "--dtype",
    ]


@pytest.mark.parametrize(
    "arguments", [["--provider", "fa3"], ["--backend", "FLASH_ATTN"], ["--backend", "FLASH_ATTN", "--provider", "fa2"]]
)
def test_what_is_named_and_cannot_run_here_is_status_3(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By its backend or by its build; asked about the CPU."""
    ran = ask(capsys, "selftest", "--device", "cpu", *arguments)

    assert ran.status == 3
    assert "FLASH_ATTN is not usable" in ran.out


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and how to get it."""
    monkeypatch.setitem(sys.modules, "torch", None)

    ran = ask(capsys, "selftest")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("torch: no-torch: computing attention needs torch, which cannot be imported (")
    assert ran.err.endswith("  hint: pip install 'attention-selector[torch]'\n")


def test_rules_of_ones_own_are_heeded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backend that they name and nobody offers says so, with the status of a refusal."""
    (tmp_path / "backends.yaml").write_text(
        "backends:\n  MY_ATTN:\n    about: Mine.\n    ability: {platform: cpu}\n", encoding="utf-8"
    )

    ran = ask(capsys, "selftest", "--backend", "my_attn", "--rules", str(tmp_path), "--device", "cpu")

    assert ran.status == 3
    assert ran.out == ("MY_ATTN is not usable: backend `MY_ATTN`: wanted the name of an installed backend, got none\n")


def test_the_first_gpu_is_the_default() -> None:
    """Where torch sees one; the CPU else."""
    result = selftest(shipped(), Asked("TORCH_SDPA", head_dims=[64], dtypes=["float32"], checks=["dense"]))

    assert result.device == ("cuda:0" if torch.cuda.is_available() else "cpu")
