"""The layers of a trace: which one decided, and what each lower one would have said, against really asking it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from selector.configuring import BACKEND_VARIABLE
from selector.decision import Decision
from selector.rendering.tree import render_tree
from selector.tracing import Layer, Trace
from tests.selector.command.runs import ask
from tests.selector.conftest import CPU, FA2, cuda, decide

H100 = cuda("sm_90", FA2)
ROLE, CATEGORY = "ltx2.audio_to_video", "cross"
# What runs, what is refused, what is substituted, and what runs or is refused by the rules: each says something else.
SAYS: Mapping[str, str] = {
    "role": "TORCH_SDPA", "category": "TRTLLM_ATTN", "config": "FLASH_ATTN_3_HUB", "flag": "CUDNN_ATTN",
    "env": "SAGE_ATTN",
}  # fmt: skip
SETS = [
    chosen
    for count in range(len(SAYS) + 1)
    for chosen in itertools.combinations(SAYS, count)
    if not {"config", "flag"} <= set(chosen)  # these exclude each other
]


def asked(names: tuple[str, ...], request: Mapping[str, object] | None = None) -> Decision:
    """Decide with some of the layers configured."""
    per_role = {key: SAYS[name] for name, key in (("role", ROLE), ("category", CATEGORY)) if name in names}
    config = {"per_role": per_role} | ({"default": SAYS["config"]} if "config" in names else {})
    return decide(
        H100,
        {"role": ROLE, "head_dim": 128, **(request or {})},
        config=config,
        backend=SAYS["flag"] if "flag" in names else None,
        env={BACKEND_VARIABLE: SAYS["env"]} if "env" in names else {},
    )


def expected(names: tuple[str, ...]) -> list[Layer]:
    """Give the layers by asking for each with those above it left out."""
    found = []
    hidden = bool({"config", "flag"} & set(names))
    for place, name in enumerate((*SAYS, "platform")):
        if name not in names and name != "platform":
            if name in ("role", "category"):
                found.append(Layer(name, "config", "not configured", ROLE if name == "role" else CATEGORY))  # type: ignore[arg-type]
            continue
        said = asked(tuple(other for other in names if list(SAYS).index(other) >= place))
        first = not any(other in names for other in [*SAYS][:place])
        state = "not read" if name == "env" and hidden else "decided" if first else "not asked"
        layer = "default" if name in ("config", "flag", "env") else name
        origin = "config" if name in ("role", "category") else name
        key = {"role": ROLE, "category": CATEGORY}.get(name)
        error = said.error.message if said.error is not None else None
        found.append(Layer(layer, origin, state, key, SAYS.get(name), said.backend, said.rule, error))  # type: ignore[arg-type]
    if not {"config", "flag", "env"} & set(names):
        found.insert(2, Layer("default", "config", "not configured"))
    return found


@pytest.mark.parametrize("names", SETS, ids=lambda names: "+".join(names) or "nothing")
def test_each_layer_says_what_it_would_alone(names: tuple[str, ...]) -> None:
    """For every combination: the highest decided, and a lower one says what it does when those above it are gone."""
    decision = asked(names)

    layers = decision.explain().layers

    assert list(layers) == expected(names)
    (decided,) = [layer for layer in layers if layer.decided]
    assert (decided.name, decided.origin) == (decision.source, decision.origin)
    assert (decided.backend, decided.rule) == (decision.backend, decision.rule)


@pytest.mark.parametrize("names", [("role", "flag", "env"), ("config",), ()], ids="+".join)
def test_layers_know_the_call(names: tuple[str, ...]) -> None:
    """What would run is what would run this call."""
    call = {"call": {"mask": "additive", "dtype": "bfloat16"}}
    decision = asked(names, call)

    platform = decision.explain().layers[-1]

    assert (platform.backend, platform.rule) == (asked((), call).backend, asked((), call).rule)
    assert platform.rule == "call/flash-per-query-mask"


def test_a_role_that_is_its_own_category_has_one_entry() -> None:
    """It speaks as the role's; as the category's it would say the same."""
    decision = decide(CPU, {"role": "cross"}, config={"per_role": {"cross": "TORCH_SDPA"}})

    role, *rest = decision.explain().layers

    assert (role.state, role.key, role.names) == ("decided", "cross", "TORCH_SDPA")
    assert [layer.name for layer in rest] == ["category", "default", "platform"]


@pytest.mark.parametrize(
    ("config", "flag", "variable", "said"),
    [
        (None, "TORCH_SDPA", "NO_ATTN", (None, None, "no backend `NO_ATTN`")),
        (None, "TORCH_SDPA", "auto", ("FLASH_ATTN", "platform_default/hopper-flash-attn", None)),
        (None, "auto", "TORCH_SDPA", ("TORCH_SDPA", "explicit/able", None)),
        ({"default": "TORCH_SDPA"}, None, "cudnn_attn", ("CUDNN_ATTN", "explicit/able", None)),
        (
            {"default": {"skip_softmax": {"threshold": 1.0}}}, "TRTLLM_ATTN", "CUDNN_ATTN",
            (None, None, "CUDNN_ATTN does not read `skip_softmax`"),
        ),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_read_is_told(
    config: Mapping[str, object] | None,
    flag: str | None,
    variable: str,
    said: tuple[str | None, str | None, str | None],
) -> None:
    """With what it names, and what that would give: with the config's own blocks, if a flag took its place."""
    decision = decide(H100, {"head_dim": 128}, config=config, backend=flag, env={BACKEND_VARIABLE: variable})

    (layer,) = [layer for layer in decision.explain().layers if layer.state == "not read"]

    assert (layer.name, layer.origin, layer.names) == ("default", "env", variable)
    assert (layer.backend, layer.rule, layer.error) == said


@pytest.mark.parametrize("variable", ["", None])
def test_a_variable_that_is_not_set_is_no_layer(variable: str | None) -> None:
    """An empty one is not set."""
    env = {} if variable is None else {BACKEND_VARIABLE: variable}

    assert len(decide(CPU, backend="TORCH_SDPA", env=env).explain().layers) == 4


def test_a_layer_that_ends_without_a_decision_has_spoken_too() -> None:
    """The platform was asked, and a fact was missing."""
    decision = decide({"arch": "sm_90"})

    *_, platform = decision.explain().layers

    assert decision.source is None
    assert (platform.decided, platform.backend) == (True, None)
    assert platform.error == "the fact `platform` is not known, and no decision is made without it"
    assert Trace().layers == ()


def test_commands_tell_the_layers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`explain --format json` and `decide --trace`, beside the walks."""
    lines = tmp_path / "lines"
    lines.write_text(json.dumps({"facts": CPU, "backend": "TORCH_SDPA"}), encoding="utf-8")
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(CPU), encoding="utf-8")
    flags = ("--diffusion-attention-backend", "TORCH_SDPA", "--format", "json")

    decided = json.loads(ask(capsys, "decide", "--trace", str(lines)).out)
    explained = json.loads(ask(capsys, "explain", "--facts", str(facts), *flags).out)

    assert decided["layers"] == explained["layers"]
    assert decided["layers"][2] == {
        "layer": "default", "origin": "flag", "state": "decided", "decided": True, "key": None, "names": "TORCH_SDPA",
        "backend": "TORCH_SDPA", "rule": "explicit/able", "error": None,
    }  # fmt: skip
    assert isinstance(decided["trace"], list)


LINES: Mapping[tuple[str, ...], list[str]] = {
    (): ["platform says FLASH_ATTN (decided)", "nothing is configured for this role"],
    ("config",): [
        "config says FLASH_ATTN_3_HUB (decided, and gives FLASH_ATTN)",
        "platform would have said FLASH_ATTN",
    ],
    ("flag", "env"): [
        "flag says CUDNN_ATTN (decided)",
        "DIFFUSION_ATTENTION_BACKEND says SAGE_ATTN (not read, would have given no backend)",
        "platform would have said FLASH_ATTN",
    ],
    ("role", "category"): [
        "config for ltx2.audio_to_video says TORCH_SDPA (decided)",
        "config for cross would have said TRTLLM_ATTN and given no backend",
        "platform would have said FLASH_ATTN",
    ],
    ("env",): [
        "DIFFUSION_ATTENTION_BACKEND says SAGE_ATTN (decided, and gives no backend)",
        "platform would have said FLASH_ATTN",
    ],
}


@pytest.mark.parametrize("names", LINES, ids="+".join)
def test_the_tree_says_it_in_a_line(names: tuple[str, ...]) -> None:
    """Layers that say nothing are left out."""
    decision = asked(names)

    drawn = render_tree(decision, decision.explain(), width=300, colour=False)

    assert f"├ layers: {'; '.join(LINES[names])}\n" in drawn


def test_a_platform_that_gives_nothing_is_told() -> None:
    """It names no backend that could be said."""
    decision = decide({"arch": "sm_90"})
    drawn = render_tree(decision, decision.explain(), width=300, colour=False)

    assert "├ layers: platform gives no backend (decided); nothing is configured for this role\n" in drawn
