"""`explain`: every flag reaches the decision, in each format."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from selector.analysis.remaining import remaining
from selector.facts import Request
from selector.ruleset import shipped
from selector.selecting import Selector
from tests.selector.command.runs import Ran, ask, process
from tests.selector.conftest import ALL, CPU, FA2, FI, SAGE2, cuda, overlay

CONFIG, BACKEND = "--diffusion-attention-config", "--diffusion-attention-backend"
TWO = {
    "platform": "cuda", "cudnn": 91002, "packages": FA2 | SAGE2,
    "devices": [{"arch": "sm_90"}, {"arch": "sm_120"}, {"arch": "sm_90"}, {"arch": "sm_75"}],
}  # fmt: skip


@pytest.fixture
def facts(tmp_path: Path) -> str:
    """Give a file of a Hopper machine with everything installed."""
    return written(tmp_path / "facts.yaml", cuda("sm_90", ALL))


def written(path: Path, content: object) -> str:
    """Write a file of YAML and give its name."""
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def told(capsys: pytest.CaptureFixture[str], facts: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    """Explain as JSON."""
    ran = ask(capsys, "explain", "--facts", facts, "--format", "json", *arguments)
    assert (ran.status, ran.err) == (status, "")
    read: dict[str, Any] = json.loads(ran.out)
    return read


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Explain what is not well, and give what is said."""
    ran = ask(capsys, "explain", *arguments)
    assert (ran.status, ran.out) == (2, "")
    return ran.err


# --- the layer ---


@pytest.mark.parametrize(
    ("flags", "known"),
    [
        ([], {"role": "self"}),
        (["--role", "cross"], {"role": "cross"}),
        (["--role", "x", "--role-category", "cross"], {"role": "x", "role_category": "cross"}),
        (["--model", "WanPipeline"], {"model": "WanPipeline", "head_dim": 128, "mask_free": True}),
        (["--head-dim", "64"], {"head_dim": 64}),
        (["--head-dim=symbolic"], {"head_dim": "symbolic"}),
        (["--mask-free"], {"mask_free": True}),
        (["--masked"], {"mask_free": False}),
        (["--model", "WanPipeline", "--masked"], {"mask_free": False}),
        (["--dtype", "float16"], {"dtype": "float16"}),
        (["--causal"], {"causal": True}),
        (["--causal", "top_left"], {"causal": True, "causal_alignment": "top_left"}),
        (["--causal=bottom_right"], {"causal": True, "causal_alignment": "bottom_right"}),
        (["--causal=false"], {"causal": False, "causal_alignment": None}),
        (["--heads", "32", "--kv-heads", "8"], {"num_heads": 32, "num_kv_heads": 8, "equal_heads": False}),
        (["--seq-len", "0", "--kv-len", "77"], {"seq_len_q": 0, "seq_len_kv": 77, "equal_lengths": False}),
        (["--compile"], {"compile": True}),
        (["--mask", "key_padding"], {"mask": "key_padding", "causal": False}),
        (["--mask", "none", "--causal", "top_left", "--dtype", "bfloat16", "--seq-len", "3", "--kv-len", "4"],
         {"mask": "none", "causal": True, "causal_alignment": "top_left", "dtype": "bfloat16", "seq_len_q": 3}),
        (["--policy", "strict"], {"policy": "strict"}),
    ],
)  # fmt: skip
def test_flags_of_the_layer_become_facts(
    capsys: pytest.CaptureFixture[str], facts: str, flags: list[str], known: Mapping[str, object]
) -> None:
    """Each by its name."""
    found = told(capsys, facts, *flags)["facts"]

    assert {name: found.get(name) for name in known} == known


@pytest.mark.parametrize("flag", ["--mask-free", "--compile", "--causal", "--head-dim", "--dtype", "--heads"])
def test_a_flag_that_is_not_given_says_nothing(capsys: pytest.CaptureFixture[str], facts: str, flag: str) -> None:
    """What nobody said is unknown, and not false."""
    names = {"--mask-free": "mask_free", "--head-dim": "head_dim", "--heads": "num_heads"}

    assert names.get(flag, flag.removeprefix("--")) not in told(capsys, facts)["facts"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--head-dim", "x"], "`head_dim`: wanted an integer or `symbolic`, got the string `x`"),
        (["--head-dim", "64.0"], "`head_dim`: wanted an integer or `symbolic`, got the string `64.0`"),
        (["--head-dim", ""], "`head_dim`: wanted an integer or `symbolic`, got the string ``"),
        (["--head-dim", "0"], "`head_dim`: wanted an integer of at least 1 or `symbolic`, got 0"),
        (["--head-dim", "-8"], "`head_dim`: wanted an integer of at least 1 or `symbolic`, got -8"),
        (["--heads", "9" * 30], f"`num_heads`: wanted an integer, got the string `{'9' * 30}`"),
        (["--dtype", "fp16"], "`dtype`: wanted one of bfloat16, float16, float32, float64, got `fp16`"),
        (["--causal", "left"], "`causal`: wanted one of true, false, top_left, bottom_right, got the string `left`"),
        (["--role", ""], "`role`: wanted a string, got an empty one"),
        (["--mask", "causal"], None),
    ],
)
def test_flags_of_the_layer_are_checked(
    capsys: pytest.CaptureFixture[str], facts: str, flags: list[str], message: str | None
) -> None:
    """As a request is."""
    said = wrong(capsys, "--facts", facts, *flags)

    assert said.startswith("request (")
    assert message is None or f"bad-value: {message}\n" in said


def test_all_flags_that_are_wrong_are_told_at_once(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """One line each."""
    assert wrong(capsys, "--facts", facts, "--head-dim", "x", "--dtype", "y", "--heads", "z").count("bad-value") == 3


@pytest.mark.parametrize(("flag", "value"), [("--role", "5"), ("--role", "true"), ("--model", "7")])
def test_a_name_may_look_like_a_number(capsys: pytest.CaptureFixture[str], facts: str, flag: str, value: str) -> None:
    """A name is a name."""
    assert ask(capsys, "explain", "--facts", facts, flag, value).status == 0


def test_causal_is_not_dropped_beside_a_mask(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """It is honoured, or refused."""
    ran = ask(capsys, "explain", "--facts", facts, "--format", "json", "--causal", "--mask", "none")

    assert ran.status == 2 or json.loads(ran.out)["facts"]["causal"] is True


# --- the config ---


@pytest.mark.parametrize(
    ("flags", "backend", "origin"),
    [
        ([BACKEND, "sage_attn"], "SAGE_ATTN", "flag"),
        ([CONFIG, '{"default": {"backend": "SAGE_ATTN"}}'], "SAGE_ATTN", "config"),
        ([CONFIG, '  {"default": "SAGE_ATTN"}'], "SAGE_ATTN", "config"),
        ([f"{CONFIG}.default.backend", "SAGE_ATTN"], "SAGE_ATTN", "config"),
        ([f"{CONFIG}.default=SAGE_ATTN"], "SAGE_ATTN", "config"),
        ([f"{CONFIG}.per_role.self.backend", "SAGE_ATTN", f"{CONFIG}.per_role.cross.backend", "X"], None, None),
        ([f"{CONFIG}.per_role.self.backend", "SAGE_ATTN", f"{CONFIG}.default", "TORCH_SDPA"], "SAGE_ATTN", "config"),
        ([BACKEND, "TORCH_SDPA", f"{CONFIG}.per_role.self", "SAGE_ATTN"], "SAGE_ATTN", "config"),
        ([BACKEND, "SAGE_ATTN", f"{CONFIG}.per_role.cross", "TORCH_SDPA"], "SAGE_ATTN", "flag"),
        ([CONFIG, '{"per_role": {"cross": "TORCH_SDPA"}}', f"{CONFIG}.default", "SAGE_ATTN"], "SAGE_ATTN", "config"),
        ([BACKEND, "auto"], "FLASH_ATTN", "platform"),
        ([CONFIG, "{}"], "FLASH_ATTN", "platform"),
    ],
)
def test_the_config_in_its_forms(
    capsys: pytest.CaptureFixture[str], facts: str, flags: list[str], backend: str | None, origin: str | None
) -> None:
    """JSON, dotted flags and the shorthand, alone and together."""
    if backend is None:
        assert "unknown-backend: no backend `X`" in wrong(capsys, "--facts", facts, *flags)
        return
    found = told(capsys, facts, "--head-dim", "64", *flags)

    assert (found["backend"], found["origin"]) == (backend, origin)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_config_of_a_file(capsys: pytest.CaptureFixture[str], facts: str, tmp_path: Path, suffix: str) -> None:
    """By its name; dotted flags add to it."""
    path = tmp_path / f"config.{suffix}"
    path.write_text(json.dumps({"per_role": {"cross": "SAGE_ATTN"}}), encoding="utf-8")
    flags = [CONFIG, str(path), f"{CONFIG}.per_role.self", "TORCH_SDPA"]

    assert told(capsys, facts, "--role", "cross", *flags)["backend"] == "SAGE_ATTN"
    assert told(capsys, facts, *flags)["backend"] == "TORCH_SDPA"


@pytest.mark.parametrize(
    ("value", "read"),
    [("0.5", 0.5), ("1", 1.0), ("0", 0.0), ("1e-3", 1e-3), ("0x1", 1.0)],
)
def test_dotted_values_are_read_as_yaml_reads_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str, read: float
) -> None:
    """Numbers are numbers."""
    name = written(tmp_path / "b200.yaml", cuda("sm_100", FI))
    flags = [f"{CONFIG}.default.backend", "TRTLLM_ATTN", f"{CONFIG}.default.skip_softmax.target_sparsity", value]

    assert told(capsys, name, *flags)["spec"]["skip_softmax"] == {"target_sparsity": read}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("on", "wanted a number, got the string `on`"),
        ("", "wanted a number, got the string ``"),
        ("true", "wanted a number, got true"),
        ("null", None),
        (".nan", "wanted a finite number, got the number nan"),
        ("1e999", "wanted a finite number, got the number inf"),
        ("[1]", "wanted a number, got the string `[1]`"),
        ("{a: 1}", "wanted a number, got the string `{a: 1}`"),
        ("'0.5'", "wanted a number, got the string `0.5`"),
        ("a: b: c", "wanted a number, got the string `a: b: c`"),
        ("4:30", "wanted a number, got the string `4:30`"),
    ],
)
def test_dotted_values_that_are_no_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str, message: str | None
) -> None:
    """Lists and mappings are texts, and what YAML cannot read is one too."""
    name = written(tmp_path / "b200.yaml", cuda("sm_100", FI))
    flags = [f"{CONFIG}.default.backend=TRTLLM_ATTN", f"{CONFIG}.default.skip_softmax.target_sparsity={value}"]

    if message is None:
        assert told(capsys, name, *flags)["backend"] == "TRTLLM_ATTN"
    else:
        said = wrong(capsys, "--facts", name, *flags)
        assert said.startswith(f"{CONFIG} (default.skip_softmax.target_sparsity): wrong-type: ")
        assert said.endswith(f"{message}\n")


EXCLUSIVE, BOTH = "mutually_exclusive: the shorthand", "`default.backend` of the config, which is SAGE_ATTN"
TWICE, ONE_OUT = "given-twice: the config says something else there already", "leave one of the two out"


@pytest.mark.parametrize(
    ("flags", "place", "message", "hint"),
    [
        ([BACKEND, "SAGE_ATTN", f"{CONFIG}.default.backend", "SAGE_ATTN"], BACKEND,
         f"{EXCLUSIVE} `SAGE_ATTN` excludes {BOTH}", ONE_OUT),
        ([BACKEND, "auto", CONFIG, '{"default": "SAGE_ATTN"}'], BACKEND,
         f"{EXCLUSIVE} `auto` excludes {BOTH}", ONE_OUT),
        ([f"{CONFIG}.default", "SAGE_ATTN", f"{CONFIG}.default", "SAGE_ATTN"], f"{CONFIG}.default", TWICE, ONE_OUT),
        ([f"{CONFIG}.default", "SAGE_ATTN", f"{CONFIG}.default.backend", "SAGE_ATTN"],
         f"{CONFIG}.default.backend", TWICE, ONE_OUT),
        ([CONFIG, '{"default": {"backend": "SAGE_ATTN"}}', f"{CONFIG}.default.backend=TORCH_SDPA"],
         f"{CONFIG}.default.backend", TWICE, ONE_OUT),
        ([CONFIG, "[]", f"{CONFIG}.default=TORCH_SDPA"], f"{CONFIG}.default", TWICE, ONE_OUT),
        ([CONFIG, '{"default": 5}', f"{CONFIG}.default.quant.dtype_qk=int8"],
         f"{CONFIG}.default.quant.dtype_qk", TWICE, ONE_OUT),
        ([f"{CONFIG}.", "X"], f"{CONFIG}.", "bad-path: wanted names joined with single dots", None),
        ([f"{CONFIG}.default..backend", "X"], f"{CONFIG}.default..backend",
         "bad-path: wanted names joined with single dots", None),
        ([f"{CONFIG}.defalt", "SAGE_ATTN"], f"{CONFIG} (defalt)", "unknown-key: no key `defalt` here",
         "did you mean `default`?"),
        ([CONFIG, "{"], f"{CONFIG}:1:2", "json-syntax: wanted a key in double quotes", None),
        ([CONFIG, "[]"], f"{CONFIG}:1:1",
         "wrong-type: wanted a mapping with `default` and `per_role`, got a list", None),
        ([CONFIG, '{"default": "X", "default": "X"}'], f"{CONFIG}:1:18",
         "duplicate-key: key `default` stands twice", None),
        ([CONFIG, '{"default":\n {"backend": 5}}'], f"{CONFIG}:2:14",
         "wrong-type: `backend`: wanted a string, got the number 5", None),
        ([CONFIG, "/nowhere/config.yaml"], "/nowhere/config.yaml",
         "unreadable: cannot read the file: no such file or directory", None),
        (["--policy", "lax"], "--policy", "bad-value: `policy`: wanted one of fallback, strict, got `lax`", None),
        (["--policy", "Strict"], "--policy", "bad-value: `policy`: wanted one of fallback, strict, got `Strict`",
         "did you mean `strict`?"),
    ],
)  # fmt: skip
def test_a_config_that_is_not_well(
    capsys: pytest.CaptureFixture[str], facts: str, flags: list[str], place: str, message: str, hint: str | None
) -> None:
    """Each with its place: the flag, the line and column in it, or the dotted path."""
    end = f"  hint: {hint}\n" if hint else ""

    assert wrong(capsys, "--facts", facts, *flags) == f"{place}: {message}\n{end}"


@pytest.mark.parametrize("value", ["", " ", "\n"])
def test_a_config_that_is_blank(capsys: pytest.CaptureFixture[str], facts: str, value: str) -> None:
    """It is neither JSON nor the name of a file."""
    assert wrong(capsys, "--facts", facts, CONFIG, value).startswith(f"{CONFIG}:{1 + value.count(chr(10))}:")


@pytest.mark.xfail(reason="what a dotted flag adds to a file is told as if it stood in the file", strict=True)
def test_a_dotted_flag_beside_a_file_is_told_as_a_flag(
    capsys: pytest.CaptureFixture[str], facts: str, tmp_path: Path
) -> None:
    """It is not in the file."""
    path = written(tmp_path / "config.yaml", {"default": "TORCH_SDPA"})

    said = wrong(capsys, "--facts", facts, CONFIG, path, f"{CONFIG}.per_role.self", "NOPE")

    assert said.startswith(CONFIG)


def test_the_environment_is_read(
    capsys: pytest.CaptureFixture[str], facts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both variables, and their names stand where they are wrong."""
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "SAGE_ATTN")
    assert told(capsys, facts)["origin"] == "env"
    assert told(capsys, facts, BACKEND, "auto")["origin"] == "platform"
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "NOPE")
    assert wrong(capsys, "--facts", facts).startswith("DIFFUSION_ATTENTION_BACKEND: unknown-backend: ")
    monkeypatch.setenv("ATTENTION_SELECTOR_POLICY", "lax")
    assert told(capsys, facts, BACKEND, "auto", "--policy", "strict")["policy"] == "strict"
    assert wrong(capsys, "--facts", facts, BACKEND, "auto").startswith("ATTENTION_SELECTOR_POLICY: bad-value: ")


# --- the machine and the rules ---


def test_a_device_is_picked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And one that is not there is refused with its place in the file."""
    name = written(tmp_path / "two.yaml", TWO)

    assert told(capsys, name, "--device", "1")["backend"] == "CUDNN_ATTN"
    assert told(capsys, name, "--device=3")["facts"]["arch"] == "sm_75"
    for device in ("4", "-1"):
        said = wrong(capsys, "--facts", name, "--device", device)
        assert said.startswith(f"{name}:")
        assert f"no-device: wanted one of 4 devices (0 to 3), got device {device}\n" in said


def test_other_devices_that_would_get_another_backend_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the flag that explains them; those that get the same are not."""
    name = written(tmp_path / "two.yaml", TWO)

    ran = ask(capsys, "explain", "--facts", name, "--head-dim", "64")
    refused = ask(capsys, "explain", "--facts", name, "--device", "1", BACKEND, "SAGE_ATTN")

    assert ran.out.splitlines()[-2:] == [
        "device 1 (sm_120) would get CUDNN_ATTN: --device 1 explains",
        "device 3 (sm_75) would get TORCH_SDPA: --device 3 explains",
    ]
    assert refused.out.splitlines()[-1] == "device 3 (sm_75) would get no backend: --device 3 explains"
    assert "device 0" not in refused.out


def test_this_machine_is_explained_without_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it is."""
    ran = ask(capsys, "explain")

    assert ran.status == 0
    assert ran.out.startswith("Defaulting to diffusion attention backend ")


def test_rules_of_ones_own(capsys: pytest.CaptureFixture[str], facts: str, tmp_path: Path) -> None:
    """Given several times, the last goes first; without the flag those of the environment."""
    one = overlay(
        tmp_path / "one", {"explicit.yaml": [("[FLASH_ATTN, FLASH_ATTN_HUB", "[TRTLLM_ATTN, FLASH_ATTN_HUB")]}
    )
    two = overlay(
        tmp_path / "two", {"explicit.yaml": [('cannot run here"\n    because: Who', 'is out"\n    because: Who')]}
    )
    asked = ("--facts", facts, BACKEND, "TRTLLM_ATTN", "--format", "json")

    assert json.loads(ask(capsys, "explain", *asked, "--rules", str(one)).out)["backend"] == "TORCH_SDPA"
    ran = ask(capsys, "explain", *asked, "--rules", str(one), "--rules", str(two))
    assert ran.status == 3
    assert json.loads(ran.out)["error"]["message"].startswith("TRTLLM_ATTN is out (")


def test_a_refusal_is_status_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In every format, and explained all the same."""
    name = written(tmp_path / "cpu.yaml", CPU)
    for form in ("tree", "json", "mermaid"):
        ran = ask(capsys, "explain", "--facts", name, BACKEND, "SAGE_ATTN", "--format", form)

        assert (ran.status, ran.err) == (3, "")
        assert "SAGE_ATTN cannot run here" in ran.out


def test_facts_without_a_platform_are_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """There is nothing to explain."""
    name = written(tmp_path / "facts.yaml", {"arch": "sm_90"})

    assert "the fact `platform` is not known" in wrong(capsys, "--facts", name)


# --- the formats ---


def tree(capsys: pytest.CaptureFixture[str], facts: str, *arguments: str) -> Ran:
    """Explain for people."""
    return ask(capsys, "explain", "--facts", facts, "--head-dim", "64", *arguments)


def test_the_tree_is_the_format_unless_another_is_asked_for(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """The answer first, then each table with its rows."""
    ran = tree(capsys, facts)

    assert (ran.status, ran.err) == (0, "")
    assert ran.out == tree(capsys, facts, "--format", "tree").out
    first, *rest = ran.out.splitlines()
    assert first == "Defaulting to diffusion attention backend FLASH_ATTN"
    for word in ("role_fallback", "platform_default", "hopper-flash-attn", "blackwell-cudnn", "wanted", "because"):
        assert any(word in line for line in rest)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_tree_keeps_to_the_width(
    capsys: pytest.CaptureFixture[str], facts: str, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """That of the terminal, or of the variable."""
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = tree(capsys, facts).out.splitlines()

    assert max(map(len, lines)) <= columns
    assert max(map(len, lines)) > columns - 20


def test_the_tree_has_colours_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], facts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where the user wants none."""
    assert "\x1b" not in tree(capsys, facts).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with_colour = tree(capsys, facts).out
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[" in with_colour
    assert "\x1b" not in tree(capsys, facts).out


def test_json_is_the_whole_decision_with_its_trace(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """As `Decision.to_dict` and `Trace.to_dict` give them."""
    chosen = Selector(facts=facts, environment={})
    decision = chosen.resolve(Request(facts={"head_dim": 64}, unsaid=("role",)), origins={"head_dim": "flag"})
    trace, possible = decision.explain(), remaining(decision)

    assert possible is not None
    assert told(capsys, facts, "--head-dim", "64") == json.loads(
        json.dumps(
            decision.to_dict()
            | {"layers": [layer.to_dict() for layer in trace.layers], "trace": trace.to_dict()}
            | {"remaining": possible.to_dict()}
        )
    )


def test_mermaid_is_a_chart(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """With the rows in it."""
    out = tree(capsys, facts, "--format", "mermaid").out

    assert out.startswith("flowchart TD\n")
    assert "hopper-flash-attn" in out


@pytest.mark.parametrize(
    ("backend", "outcome", "word"),
    [("CUDNN_ATTN", "runs", "it would run"), ("SAGE_ATTN_3", "substituted", None), ("TRTLLM_ATTN", "refused", None)],
)
def test_why_not(capsys: pytest.CaptureFixture[str], facts: str, backend: str, outcome: str, word: str | None) -> None:
    """What stands in the way of a backend, and what naming it would give, in the tree and in JSON."""
    answer = told(capsys, facts, "--why-not", backend.lower())["why_not"]
    plain = tree(capsys, facts)
    asked = tree(capsys, facts, "--why-not", backend)

    assert (answer["backend"], answer["chosen"], answer["named"]["outcome"]) == (backend, False, outcome)
    assert asked.status == 0
    assert asked.out.startswith(plain.out)
    assert f"Why not {backend}?" in asked.out
    assert word is None or word in asked.out


def test_why_not_what_runs(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """It runs."""
    assert told(capsys, facts, "--why-not", "FLASH_ATTN", "--head-dim", "64")["why_not"]["chosen"] is True
    assert "FLASH_ATTN runs" in tree(capsys, facts, "--why-not", "FLASH_ATTN").out


@pytest.mark.parametrize("form", ["tree", "json"])
def test_why_not_a_backend_that_nobody_knows(capsys: pytest.CaptureFixture[str], facts: str, form: str) -> None:
    """The nearest is told."""
    said = wrong(capsys, "--facts", facts, "--format", form, "--why-not", "CUDN_ATTN")

    assert "unknown-backend: no backend `CUDN_ATTN`\n  hint: did you mean `CUDNN_ATTN`?\n" in said


def test_why_not_is_not_dropped_beside_a_chart(capsys: pytest.CaptureFixture[str], facts: str) -> None:
    """It is answered, or refused."""
    plain = tree(capsys, facts, "--format", "mermaid")
    asked = tree(capsys, facts, "--format", "mermaid", "--why-not", "TRTLLM_ATTN")

    assert asked.status == 2 or asked.out != plain.out


# --- processes ---


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_the_terminal_will_do(facts: str, encoding: str) -> None:
    """What it lacks is written out."""
    ran = process("explain", "--facts", facts, "--role", "é", variables={"PYTHONIOENCODING": encoding})

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.isascii() is (encoding != "utf-8")


@pytest.mark.parametrize(
    "variables", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"COLUMNS": "x"}]
)
def test_any_environment_will_do(facts: str, variables: dict[str, str]) -> None:
    """A locale without UTF-8, a width that is none."""
    ran = process("explain", "--facts", facts, "--role", "é", variables=variables)

    assert (ran.status, ran.err) == (0, "")


def test_every_shipped_machine_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """For every model that the rules know."""
    for path in sorted((Path(__file__).parents[3] / "rules" / "machines").glob("*.yaml")):
        for model in shipped().models:
            ran = ask(capsys, "explain", "--facts", str(path), "--model", model)

            assert (ran.status, ran.err) == (0, "")
