"""What a config may say: every entry, block, field and value, with the whole sentence for what it may not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from selector import AttentionConfig, AttentionSpec, AttnQuantSpec, SkipSoftmaxSpec
from selector.config import is_auto, read_config
from selector.faults import place
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.conftest import BACKENDS, overlay

TRTLLM = "TRTLLM_ATTN"
KNOWN = f"known: {', '.join(BACKENDS)}"
READS_TRTLLM = "it reads dtype_qk, q_block_size, k_block_size"
READS_FLASHINFER = "it reads dtype_qk, dtype_vo, flashinfer_backend"
UNREADING = [name for name in BACKENDS if name not in {TRTLLM, "FLASHINFER_ATTN"}]


def told(config: object) -> list[str]:
    """Give every problem of a config as the two lines that a person reads."""
    faults, _ = read_config(config, shipped())
    return [str(problem) for problem in place(faults, "config")]


def entries(config: object) -> dict[str, object]:
    """Read a good config and give what is left of it, as plain data."""
    faults, read = read_config(config, shipped())
    assert not faults
    return read.model_dump(exclude_unset=True, exclude_none=True)


def problem(path: str, code: str, message: str, hint: str | None = None) -> str:
    """Write one problem as it is shown."""
    text = f"config ({path}): {code}: {message}" if path else f"config: {code}: {message}"
    return f"{text}\n  hint: {hint}" if hint else text


# --- Skip-Softmax ---


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        ({"target_sparsity": 0}, {"target_sparsity": 0.0}),
        ({"target_sparsity": 1}, {"target_sparsity": 1.0}),
        ({"target_sparsity": 0.65, "disabled_until_timestep": 0.86}, None),
        ({"threshold": 0}, {"threshold": 0.0}),
        ({"threshold": 1e300, "disabled_until_timestep": 0.0}, None),
        ({"disabled_until_timestep": 1}, {"disabled_until_timestep": 1.0}),
        ({"target_sparsity": None, "threshold": 2.0}, {"threshold": 2.0}),
        ({}, None),
    ],
)
def test_skip_softmax_takes(block: dict[str, object], kept: dict[str, object] | None) -> None:
    """Both ends of each range belong to it, an integer is a number, null is as if not written."""
    read = entries({"default": {"backend": TRTLLM, "skip_softmax": block}})

    assert read["default"] == {"backend": TRTLLM, "skip_softmax": block if kept is None else kept}


@pytest.mark.parametrize(
    ("block", "field", "code", "message"),
    [
        ({"target_sparsity": -0.1}, "target_sparsity", "out-of-range", "a number of at least 0, got the number -0.1"),
        ({"target_sparsity": 1.5}, "target_sparsity", "out-of-range", "a number of at most 1, got the number 1.5"),
        ({"target_sparsity": True}, "target_sparsity", "wrong-type", "a number, got true"),
        ({"target_sparsity": "0.5"}, "target_sparsity", "wrong-type", "a number, got the string `0.5`"),
        ({"target_sparsity": []}, "target_sparsity", "wrong-type", "a number, got a list"),
        ({"target_sparsity": math.nan}, "target_sparsity", "wrong-type", "a finite number, got the number nan"),
        ({"target_sparsity": math.inf}, "target_sparsity", "wrong-type", "a finite number, got the number inf"),
        ({"threshold": -1}, "threshold", "out-of-range", "a number of at least 0, got the number -1"),
        ({"threshold": False}, "threshold", "wrong-type", "a number, got false"),
        ({"threshold": -math.inf}, "threshold", "wrong-type", "a finite number, got the number -inf"),
        ({"threshold": {}}, "threshold", "wrong-type", "a number, got a mapping"),
        ({"disabled_until_timestep": 1.01}, "disabled_until_timestep", "out-of-range",
         "a number of at most 1, got the number 1.01"),
        ({"disabled_until_timestep": -1}, "disabled_until_timestep", "out-of-range",
         "a number of at least 0, got the number -1"),
        ({"disabled_until_timestep": True}, "disabled_until_timestep", "wrong-type", "a number, got true"),
        ({"disabled_until_timestep": math.nan}, "disabled_until_timestep", "wrong-type",
         "a finite number, got the number nan"),
    ],
)  # fmt: skip
def test_skip_softmax_refuses(block: dict[str, object], field: str, code: str, message: str) -> None:
    """What is out of range, not finite, a boolean or no number at all is told with its field and its value."""
    path = f"default.skip_softmax.{field}"

    assert told({"default": {"backend": TRTLLM, "skip_softmax": block}}) == [
        problem(path, code, f"`{field}`: wanted {message}")
    ]


def test_a_number_beyond_every_float_is_refused() -> None:
    """An integer that no float holds is not taken for a number of the range."""
    (line,) = told({"default": {"backend": TRTLLM, "skip_softmax": {"threshold": 10**400}}})

    assert line.startswith("config (default.skip_softmax.threshold): wrong-type: `threshold`: wanted a number, got")


@pytest.mark.parametrize("block", [{"target_sparsity": 0.5, "threshold": 1.0}, {"target_sparsity": 0, "threshold": 0}])
def test_sparsity_and_threshold_exclude_each_other(block: dict[str, object]) -> None:
    """Two operating points at once are no operating point, zeros included."""
    message = "wanted one of `target_sparsity` and `threshold`, got both"

    assert told({"default": {"backend": TRTLLM, "skip_softmax": block}}) == [
        problem("default.skip_softmax", "bad-value", message)
    ]


@pytest.mark.parametrize(
    ("block", "got"), [(5, "the number 5"), ("0.5", "the string `0.5`"), ([], "a list"), (True, "true")]
)
@pytest.mark.parametrize("name", ["skip_softmax", "quant"])
def test_a_block_is_a_mapping(name: str, block: object, got: str) -> None:
    """Anything else where a block should be is told as what it is."""
    assert told({"default": {"backend": TRTLLM, name: block}}) == [
        problem(f"default.{name}", "wrong-type", f"`{name}`: wanted a mapping, got {got}")
    ]


# --- quantisation ---


@pytest.mark.parametrize(
    ("backend", "block"),
    [
        *[(TRTLLM, {"dtype_qk": dtype}) for dtype in ("int8", "fp8_e4m3")],
        *[(TRTLLM, {"dtype_qk": "int8", "q_block_size": q, "k_block_size": k}) for q in (1, 4, 16) for k in (1, 4, 16)],
        (TRTLLM, {"q_block_size": 4}),
        (TRTLLM, {}),
        *[("FLASHINFER_ATTN", {"dtype_qk": dtype}) for dtype in ("float16", "bfloat16")],
        *[("FLASHINFER_ATTN", {"dtype_vo": dtype}) for dtype in ("float16", "bfloat16", "fp8_e4m3")],
        *[("FLASHINFER_ATTN", {"flashinfer_backend": name}) for name in ("auto", "fa2", "fa3", "cute-dsl")],
        ("FLASHINFER_ATTN", {}),
    ],
)
def test_quant_takes(backend: str, block: dict[str, object]) -> None:
    """Each of the two backends that read the block takes its own fields and values, and nothing is added to them."""
    assert entries({"default": {"backend": backend, "quant": block}})["default"] == {"backend": backend, "quant": block}


@pytest.mark.parametrize(
    ("backend", "block", "field", "code", "message", "hint"),
    [
        (TRTLLM, {"dtype_qk": "float16"}, "dtype_qk", "bad-value",
         "`dtype_qk`: wanted one of int8, fp8_e4m3 for TRTLLM_ATTN, got the string `float16`", None),
        (TRTLLM, {"dtype_qk": "INT8"}, "dtype_qk", "bad-value",
         "`dtype_qk`: wanted one of int8, fp8_e4m3 for TRTLLM_ATTN, got the string `INT8`", "did you mean `int8`?"),
        (TRTLLM, {"dtype_qk": 8}, "dtype_qk", "wrong-type", "`dtype_qk`: wanted a string, got the number 8", None),
        (TRTLLM, {"dtype_vo": "float16"}, "dtype_vo", "unread-field",
         "TRTLLM_ATTN does not read `quant.dtype_vo`", READS_TRTLLM),
        (TRTLLM, {"flashinfer_backend": "fa2"}, "flashinfer_backend", "unread-field",
         "TRTLLM_ATTN does not read `quant.flashinfer_backend`", READS_TRTLLM),
        (TRTLLM, {"q_block_size": 2}, "q_block_size", "bad-value",
         "`q_block_size`: wanted one of 1, 4, 16 for TRTLLM_ATTN, got the number 2", None),
        (TRTLLM, {"k_block_size": 0}, "k_block_size", "bad-value",
         "`k_block_size`: wanted one of 1, 4, 16 for TRTLLM_ATTN, got the number 0", None),
        (TRTLLM, {"q_block_size": True}, "q_block_size", "wrong-type",
         "`q_block_size`: wanted an integer, got true", None),
        (TRTLLM, {"q_block_size": 4.0}, "q_block_size", "wrong-type",
         "`q_block_size`: wanted an integer, got the number 4.0", None),
        (TRTLLM, {"k_block_size": "16"}, "k_block_size", "wrong-type",
         "`k_block_size`: wanted an integer, got the string `16`", None),
        (TRTLLM, {"k_block_size": None}, "k_block_size", "wrong-type",
         "`k_block_size`: wanted an integer, got null", None),
        (TRTLLM, {"q_block_size": math.nan}, "q_block_size", "wrong-type",
         "`q_block_size`: wanted an integer, got the number nan", None),
        ("FLASHINFER_ATTN", {"dtype_qk": "int8"}, "dtype_qk", "bad-value",
         "`dtype_qk`: wanted one of float16, bfloat16 for FLASHINFER_ATTN, got the string `int8`", None),
        ("FLASHINFER_ATTN", {"dtype_vo": "int8"}, "dtype_vo", "bad-value",
         "`dtype_vo`: wanted one of float16, bfloat16, fp8_e4m3 for FLASHINFER_ATTN, got the string `int8`", None),
        ("FLASHINFER_ATTN", {"flashinfer_backend": "fa9"}, "flashinfer_backend", "bad-value",
         "`flashinfer_backend`: wanted one of auto, fa2, fa3, cute-dsl for FLASHINFER_ATTN, got the string `fa9`",
         "did you mean `fa3`?"),
        ("FLASHINFER_ATTN", {"q_block_size": 1}, "q_block_size", "unread-field",
         "FLASHINFER_ATTN does not read `quant.q_block_size`", READS_FLASHINFER),
        ("FLASHINFER_ATTN", {"k_block_size": 16}, "k_block_size", "unread-field",
         "FLASHINFER_ATTN does not read `quant.k_block_size`", READS_FLASHINFER),
    ],
)  # fmt: skip
def test_quant_refuses(
    backend: str, block: dict[str, object], field: str, code: str, message: str, hint: str | None
) -> None:
    """A value of the wrong set, a field that the backend does not read (its default value too), and a wrong type."""
    assert told({"default": {"backend": backend, "quant": block}}) == [
        problem(f"default.quant.{field}", code, message, hint)
    ]


@pytest.mark.parametrize("block", [{}, {"dtype_qk": "int8"}])
@pytest.mark.parametrize("backend", UNREADING)
def test_no_other_backend_reads_quant(backend: str, block: dict[str, object]) -> None:
    """On the seven others the block is refused, even an empty one."""
    (line,) = told({"default": {"backend": backend, "quant": block}})

    assert line.startswith(problem("default.quant", "unread-block", f"{backend} does not read `quant`"))
    assert "FLASHINFER_ATTN, TRTLLM_ATTN" in line


@pytest.mark.parametrize("block", [{}, {"threshold": 1.0}])
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != TRTLLM])
def test_no_other_backend_reads_skip_softmax(backend: str, block: dict[str, object]) -> None:
    """Skip-Softmax belongs to one backend alone."""
    message = f"{backend} does not read `skip_softmax`"

    assert told({"per_role": {"cross": {"backend": backend, "skip_softmax": block}}}) == [
        problem("per_role.cross.skip_softmax", "unread-block", message, "TRTLLM_ATTN does")
    ]


def test_null_stands_for_a_block_or_field_that_is_not_written() -> None:
    """So a null is never unread."""
    config = {"default": {"backend": "FLASH_ATTN", "skip_softmax": None, "quant": None}}

    assert entries(config)["default"] == {"backend": "FLASH_ATTN"}
    assert entries({"default": {"backend": TRTLLM, "quant": {"dtype_vo": None}}})


def test_rules_of_ones_own_say_what_a_backend_reads(rules_copy_of_backends: RuleSet) -> None:
    """Which blocks and values are read stands in the rules: with others the same config is good or bad."""
    skipping = {"default": {"backend": "FLASH_ATTN", "skip_softmax": {"threshold": 1.0}}}
    quantised = {"default": {"backend": TRTLLM, "quant": {"dtype_qk": "float16"}}}

    assert read_config(skipping, rules_copy_of_backends)[0] == []
    assert read_config(quantised, rules_copy_of_backends)[0] == []


@pytest.fixture
def rules_copy_of_backends(tmp_path_factory: pytest.TempPathFactory) -> RuleSet:
    """Give rules in which another backend reads Skip-Softmax, and TRTLLM_ATTN takes float16 and no block sizes."""
    edits = [
        (
            "    providers: [fa4, fa3, fa2]\n",
            "    providers: [fa4, fa3, fa2]\n    reads: {skip_softmax: [threshold]}\n",
        ),
        ("dtype_qk: [int8, fp8_e4m3]", "dtype_qk: [int8, fp8_e4m3, float16]"),
    ]
    return load_rules([overlay(tmp_path_factory.mktemp("overlay"), {"backends.yaml": edits})])


# --- entries ---


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({}, {}),
        ({"default": None}, {}),
        ({"default": {}}, {}),
        ({"default": "auto"}, {}),
        ({"default": "AuTo"}, {}),
        ({"default": {"backend": "AUTO"}}, {}),
        ({"default": {"backend": None}}, {}),
        ({"default": "flash_attn"}, {"default": {"backend": "FLASH_ATTN"}}),
        ({"default": {"backend": "Sage_Attn_3"}}, {"default": {"backend": "SAGE_ATTN_3"}}),
        ({"default": {"skip_softmax": {"threshold": 1.0}}}, {"default": {"skip_softmax": {"threshold": 1.0}}}),
        ({"per_role": {}}, {}),
        ({"per_role": {"cross": "auto"}}, {}),
        ({"per_role": {"cross": {"backend": "auto"}}}, {}),
        ({"per_role": {"cross": "sage_attn"}}, {"per_role": {"cross": {"backend": "SAGE_ATTN"}}}),
        ({"per_role": {"ltx2.audio_self": "TORCH_SDPA"}}, {"per_role": {"ltx2.audio_self": {"backend": "TORCH_SDPA"}}}),
        (
            {"per_role": {"ltx2": {"audio_self": "TORCH_SDPA", "video": {"deep": {"backend": "cudnn_attn"}}}}},
            {"per_role": {
                "ltx2.audio_self": {"backend": "TORCH_SDPA"}, "ltx2.video.deep": {"backend": "CUDNN_ATTN"},
            }},
        ),
        ({"per_role": {"a.b": {"c": "TORCH_SDPA"}}}, {"per_role": {"a.b.c": {"backend": "TORCH_SDPA"}}}),
        ({"per_role": {"ltx2": {"audio_self": "auto"}}}, {}),
        ({"per_role": {"a b": "TORCH_SDPA"}}, {"per_role": {"a b": {"backend": "TORCH_SDPA"}}}),
    ],
)  # fmt: skip
def test_entries_that_are_read(config: dict[str, object], kept: dict[str, object]) -> None:
    """Names in any case, `auto` as if absent, nested roles joined with dots."""
    read = entries(config)

    assert {name: entry for name, entry in read.items() if entry} == kept


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_can_be_named_in_any_case(name: str) -> None:
    """Small letters, capitals and a mixture are the same name, in an entry and in a block."""
    for spelt in (name, name.lower(), name.title()):
        assert entries({"default": spelt, "per_role": {"self": {"backend": spelt}}}) == {
            "default": {"backend": name},
            "per_role": {"self": {"backend": name}},
        }


def nobody(name: str, hint: str | None = None) -> tuple[str, str, str]:
    """Write the code, sentence and hint of a backend that nobody knows."""
    return "unknown-backend", f"no backend `{name}`", hint or KNOWN


def mistyped(name: str, wanted: str, got: str) -> tuple[str, str, None]:
    """Write the code and sentence of a value of the wrong type."""
    return "wrong-type", f"`{name}`: wanted {wanted}, got {got}", None


WRONG: list[tuple[object, str, tuple[str, str, str | None]]] = [
    (5, "", ("wrong-type", "wanted a mapping with `default` and `per_role`, got the number 5", None)),
    ([], "", ("wrong-type", "wanted a mapping with `default` and `per_role`, got a list", None)),
    ("X", "", ("wrong-type", "wanted a mapping with `default` and `per_role`, got the string `X`", None)),
    ({"defaults": "X"}, "defaults", ("unknown-key", "no key `defaults` here", "did you mean `default`?")),
    ({"x": 1}, "x", ("unknown-key", "no key `x` here", "known here: default, per_role")),
    ({"policy": "strict"}, "policy", ("unknown-key", "no key `policy` here", "known here: default, per_role")),
    ({"default": 5}, "default", mistyped("default", "a backend name or a mapping", "the number 5")),
    ({"default": []}, "default", mistyped("default", "a backend name or a mapping", "a list")),
    ({"default": True}, "default", mistyped("default", "a backend name or a mapping", "true")),
    ({"default": {"backend": 5}}, "default.backend", mistyped("backend", "a string", "the number 5")),
    ({"default": {"backend": True}}, "default.backend", mistyped("backend", "a string", "true")),
    ({"default": {"backend": ["X"]}}, "default.backend", mistyped("backend", "a string", "a list")),
    ({"default": ""}, "default", nobody("")),
    ({"default": "flash_atn"}, "default", nobody("flash_atn", "did you mean `FLASH_ATTN`?")),
    ({"default": "aut"}, "default", nobody("aut", "did you mean `auto`?")),
    ({"default": "FLASH_ATTN "}, "default", nobody("FLASH_ATTN ", "did you mean `FLASH_ATTN`?")),
    ({"default": {"backend": "NOPE"}}, "default.backend", nobody("NOPE")),
    ({"per_role": {"never.asked": "NOPE"}}, "per_role.never.asked", nobody("NOPE")),
    ({"per_role": {"a": {"b": {"backend": "NOPE"}}}}, "per_role.a.b.backend", nobody("NOPE")),
    ({"default": "ßAGE_ATTN"}, "default", nobody("ßAGE_ATTN", "did you mean `SAGE_ATTN`?")),
    ({"default": {"backnd": "X"}}, "default.backnd",
     ("unknown-key", "no key `backnd` here", "did you mean `backend`?")),
    ({"per_role": None}, "per_role", mistyped("per_role", "a mapping of roles", "null")),
    ({"per_role": ["X"]}, "per_role", mistyped("per_role", "a mapping of roles", "a list")),
    ({"per_role": {"cross": None}}, "per_role.cross",
     mistyped("cross", "a backend name or a mapping", "null")),
    ({"per_role": {"cross": 1.5}}, "per_role.cross",
     mistyped("cross", "a backend name or a mapping", "the number 1.5")),
    ({"per_role": {"a": {"b": 5}}}, "per_role.a.b",
     mistyped("b", "a backend name or a mapping", "the number 5")),
    ({"per_role": {"cross": {}}}, "per_role.cross",
     ("no-backend", "the entry for `cross` names no `backend`: nothing would read it", None)),
    ({"per_role": {"cross": {"backend": None}}}, "per_role.cross",
     ("no-backend", "the entry for `cross` names no `backend`: nothing would read it", None)),
    ({"per_role": {"cross": {"quant": {}}}}, "per_role.cross",
     ("no-backend", "the entry for `cross` names no `backend`: nothing would read it", None)),
    ({"per_role": {"cross": {"backend": "auto", "quant": {}}}}, "per_role.cross.quant",
     ("dropped-block", "`quant` stands beside `auto`, so nothing would read it", None)),
    ({"default": {"backend": "Auto", "skip_softmax": {"threshold": 1.0}}}, "default.skip_softmax",
     ("dropped-block", "`skip_softmax` stands beside `auto`, so nothing would read it", None)),
    ({"per_role": {"ltx2": {"backend": "TORCH_SDPA", "audio_self": "TORCH_SDPA"}}}, "per_role.ltx2.audio_self",
     ("mixed-roles", "`ltx2` mixes the key of an entry with the nested role `audio_self`",
      "an entry holds backend, skip_softmax, quant")),
    ({"per_role": {"ltx2": {"quant": {}, "audio_self": {"backend": "TORCH_SDPA"}}}}, "per_role.ltx2.audio_self",
     ("mixed-roles", "`ltx2` mixes the key of an entry with the nested role `audio_self`",
      "an entry holds backend, skip_softmax, quant")),
    ({"per_role": {"cross": {"backend": "TORCH_SDPA", "quants": {}}}}, "per_role.cross.quants",
     ("unknown-key", "no key `quants` here", "did you mean `quant`?")),
    ({"per_role": {"cross": {"backend": "TORCH_SDPA", "x": 5}}}, "per_role.cross.x",
     ("unknown-key", "no key `x` here", "known here: backend, skip_softmax, quant")),
    ({"per_role": {"cross": {"backend": TRTLLM, "quant": {"dtype_q": "int8"}}}}, "per_role.cross.quant.dtype_q",
     ("unknown-key", "no key `dtype_q` here", "did you mean `dtype_qk`?")),
    ({"default": {"backend": TRTLLM, "skip_softmax": {"sparsity": 1}}}, "default.skip_softmax.sparsity",
     ("unknown-key", "no key `sparsity` here", "did you mean `target_sparsity`?")),
    ({"per_role": {"": "TORCH_SDPA"}}, "per_role.",
     ("bad-role", "`` is no name for a role: wanted names joined with dots", None)),
    ({"per_role": {"a..b": "TORCH_SDPA"}}, "per_role.a..b",
     ("bad-role", "`a..b` is no name for a role: wanted names joined with dots", None)),
    ({"per_role": {"a": {" ": "TORCH_SDPA"}}}, "per_role.a. ",
     ("bad-role", "`a. ` is no name for a role: wanted names joined with dots", None)),
    ({"per_role": {"a.b": "TORCH_SDPA", "a": {"b": "TORCH_SDPA"}}}, "per_role.a.b",
     ("duplicate-role", "role `a.b` has two entries", "one is nested, one is dotted")),
    ({"per_role": {"a": {"b": "auto"}, "a.b": "auto"}}, "per_role.a.b",
     ("duplicate-role", "role `a.b` has two entries", "one is nested, one is dotted")),
]  # fmt: skip


@pytest.mark.parametrize(("config", "path", "expected"), WRONG, ids=[str(config)[:60] for config, _, _ in WRONG])
def test_entries_that_are_refused(config: object, path: str, expected: tuple[str, str, str | None]) -> None:
    """Each with its path, code, sentence and hint; a name is checked even where no layer would ask for it."""
    assert told(config) == [problem(path, *expected)]


def test_every_problem_of_a_config_is_told_at_once() -> None:
    """One pass finds the wrong key, name, type and value."""
    config = {
        "defaults": "X",
        "default": {"backend": TRTLLM, "quant": {"dtype_qk": "float16", "dtype_vo": "x", "q_block_size": 3}},
        "per_role": {"cross": "NOPE", "self": {"backend": "NOPE", "skip_softmax": {"threshold": -1, "x": 1}}},
    }
    faults, _ = read_config(config, shipped(), ("line",))

    assert [(".".join(map(str, fault.path)), fault.code) for fault in faults] == [
        ("line.defaults", "unknown-key"),
        ("line.default.quant.dtype_qk", "bad-value"),
        ("line.default.quant.dtype_vo", "unread-field"),
        ("line.default.quant.q_block_size", "bad-value"),
        ("line.per_role.cross", "unknown-backend"),
        ("line.per_role.self.skip_softmax.threshold", "out-of-range"),
        ("line.per_role.self.skip_softmax.x", "unknown-key"),
        ("line.per_role.self.backend", "unknown-backend"),
    ]


def test_a_key_that_is_no_string_is_told() -> None:
    """A mapping of Python may have one; a text cannot."""
    faults, _ = read_config({5: "X"}, shipped())

    assert [fault.message for fault in faults] == ["no key `5` here"]


# --- the typed form ---


def test_the_typed_form_and_the_plain_form_are_equal() -> None:
    """Specs, names and mappings describe the same config, in whatever mixture they are written."""
    typed = AttentionConfig(
        default=AttentionSpec(
            backend="trtllm_attn",
            skip_softmax=SkipSoftmaxSpec(target_sparsity=0.65, disabled_until_timestep=0.86),
            quant=AttnQuantSpec(dtype_qk="fp8_e4m3", q_block_size=1, k_block_size=16),
        ),
        per_role={"cross": AttentionSpec(backend="TORCH_SDPA"), "ltx2.audio_self": AttentionSpec(backend="auto")},
    )
    plain = {
        "default": {
            "backend": TRTLLM,
            "skip_softmax": {"target_sparsity": 0.65, "disabled_until_timestep": 0.86},
            "quant": {"dtype_qk": "fp8_e4m3", "q_block_size": 1, "k_block_size": 16},
        },
        "per_role": {"cross": "Torch_SDPA", "ltx2": {"audio_self": "auto"}},
    }
    mixed = {"default": typed.default, "per_role": {"cross": AttentionSpec(backend="TORCH_SDPA")}}

    assert AttentionConfig.model_validate(plain) == typed
    assert AttentionConfig.model_validate(mixed) == typed
    assert AttentionConfig.model_validate(typed) == typed
    assert typed.default is not None
    assert typed.default.backend == TRTLLM
    assert typed.per_role == {"cross": AttentionSpec(backend="TORCH_SDPA")}


def test_what_is_different_is_not_equal() -> None:
    """Another name, block or role makes another config."""
    one = AttentionConfig(default=AttentionSpec(backend="TORCH_SDPA"))

    assert one != AttentionConfig(default=AttentionSpec(backend="FLASH_ATTN"))
    assert one != AttentionConfig(per_role={"self": AttentionSpec(backend="TORCH_SDPA")})
    assert one != AttentionConfig()
    assert AttentionConfig() == AttentionConfig.model_validate({"default": "auto"})


def test_specs_are_frozen() -> None:
    """No field of a config, spec or block can be set again."""
    spec = AttentionSpec(backend=TRTLLM, skip_softmax=SkipSoftmaxSpec(threshold=1.0), quant=AttnQuantSpec())
    config = AttentionConfig(default=spec)

    for model, name in (
        (config, "default"),
        (spec, "backend"),
        (spec.skip_softmax, "threshold"),
        (spec.quant, "dtype_qk"),
    ):
        with pytest.raises(ValidationError, match="Instance is frozen"):
            setattr(model, name, None)


def test_a_spec_knows_whether_it_leaves_the_choice_open() -> None:
    """No name and `auto` in any case do; a backend does not."""
    assert AttentionSpec().automatic
    assert AttentionSpec(backend="AUTO").automatic
    assert AttentionSpec(backend="AUTO").backend == "auto"
    assert not AttentionSpec(backend="TORCH_SDPA").automatic
    assert AttentionSpec(skip_softmax=SkipSoftmaxSpec(threshold=1.0)).automatic
    assert [is_auto(name) for name in ("auto", "Auto", "automatic", None, 5)] == [True, True, False, False, False]


def test_a_spec_gives_the_blocks_that_were_written() -> None:
    """Each with the fields that were; what is null or left to its default is not there."""
    spec = AttentionSpec(backend=TRTLLM, quant=AttnQuantSpec(dtype_qk="int8", k_block_size=16, dtype_vo=None))

    assert spec.blocks() == {"quant": {"dtype_qk": "int8", "k_block_size": 16}}
    assert AttentionSpec(backend=TRTLLM, quant=AttnQuantSpec()).blocks() == {"quant": {}}
    assert AttentionSpec(backend=TRTLLM).blocks() == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AttentionSpec(backend="NOPE"), f"Value error, no backend `NOPE` ({KNOWN})"),
        (lambda: AttentionSpec(backend="sage_atn"), "Value error, no backend `sage_atn` (did you mean `SAGE_ATTN`?)"),
        (
            lambda: AttentionSpec(backend="FLASH_ATTN", skip_softmax=SkipSoftmaxSpec(threshold=1.0)),
            "Value error, FLASH_ATTN does not read `skip_softmax` (TRTLLM_ATTN does)",
        ),
        (
            lambda: AttentionSpec(backend=TRTLLM, quant=AttnQuantSpec(dtype_qk="float16")),
            "Value error, `dtype_qk`: wanted one of int8, fp8_e4m3 for TRTLLM_ATTN, got the string `float16`",
        ),
        (
            lambda: AttentionSpec(backend="auto", quant=AttnQuantSpec()),
            "Value error, `quant` stands beside `auto`, so nothing would read it",
        ),
        (
            lambda: SkipSoftmaxSpec(target_sparsity=0.5, threshold=1.0),
            "Value error, wanted one of `target_sparsity` and `threshold`, got both",
        ),
        (
            lambda: AttentionConfig.model_validate({"default": "NOPE", "x": 1}),
            f"Value error, no key `x` here (known here: default, per_role); no backend `NOPE` ({KNOWN})",
        ),
        (
            lambda: AttentionConfig(per_role={"cross": AttentionSpec()}),
            "Value error, the entry for `cross` names no `backend`: nothing would read it",
        ),
    ],
)
def test_the_typed_form_refuses_when_it_is_built(make: object, message: str) -> None:
    """A wrong spec cannot exist: building it raises pydantic's error, which is a `ValueError`, with our sentence."""
    assert callable(make)

    with pytest.raises(ValidationError) as caught:
        make()

    assert [error["msg"] for error in caught.value.errors()] == [message]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SkipSoftmaxSpec(target_sparsity=True),
        lambda: SkipSoftmaxSpec(target_sparsity=1.5),
        lambda: SkipSoftmaxSpec(threshold=math.nan),
        lambda: SkipSoftmaxSpec(threshold=math.inf),
        lambda: SkipSoftmaxSpec(threshold="1"),  # type: ignore[arg-type]
        lambda: SkipSoftmaxSpec(disabled_until_timestep=-0.5),
        lambda: SkipSoftmaxSpec(sparsity=0.5),  # type: ignore[call-arg]
        lambda: AttnQuantSpec(q_block_size=True),
        lambda: AttnQuantSpec(k_block_size=16.0),  # type: ignore[arg-type]
        lambda: AttnQuantSpec(dtype_qk=8),  # type: ignore[arg-type]
        lambda: AttentionSpec(backend=5),  # type: ignore[arg-type]
        lambda: AttentionConfig.model_validate([]),
    ],
)
def test_the_typed_form_is_strict(make: object) -> None:
    """Booleans, strings and floats do not pass for other types, and unknown fields are refused."""
    assert callable(make)

    with pytest.raises(ValueError, match="validation error"):
        make()


def test_specs_can_be_checked_against_other_rules(rules_copy_of_backends: RuleSet) -> None:
    """The rules go into the context of the validation."""
    plain = {"backend": TRTLLM, "quant": {"dtype_qk": "float16"}}

    spec = AttentionSpec.model_validate(plain, context={"rules": rules_copy_of_backends})

    assert spec.quant is not None
    assert spec.quant.dtype_qk == "float16"
    with pytest.raises(ValidationError):
        AttentionSpec.model_validate(plain)


# --- laws ---

names = st.sampled_from([*BACKENDS, "auto"]).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.upper(), name.title()])
)
roles = st.sampled_from(["self", "cross", "joint", "ltx2.audio_self", "ltx2.video", "a.b.c"])


@given(default=st.none() | names, per_role=st.dictionaries(roles, names))
@settings(max_examples=100, deadline=None)
def test_nesting_roles_changes_nothing(default: str | None, per_role: Mapping[str, str]) -> None:
    """A dotted role and the same role nested give equal configs, and reading what was read changes nothing."""
    nested: dict[str, object] = {}
    for role, name in per_role.items():
        *outer, last = role.split(".")
        here = nested
        for part in outer:
            here = here.setdefault(part, {})  # type: ignore[assignment]
        here[last] = {"backend": name}

    dotted = AttentionConfig.model_validate({"default": default, "per_role": dict(per_role)})

    assert AttentionConfig.model_validate({"default": default, "per_role": nested}) == dotted
    assert AttentionConfig.model_validate(dotted.model_dump(exclude_unset=True)) == dotted


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | names,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "default",
                    "per_role",
                    "backend",
                    "quant",
                    "skip_softmax",
                    "threshold",
                    "dtype_qk",
                    "q_block_size",
                    "x",
                    "",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(config=junk)
@settings(max_examples=300, deadline=None)
def test_whatever_is_given_is_read_or_told(config: object) -> None:
    """No value raises anything: there is a config of known backends, or every fault says where it is."""
    faults, read = read_config(config, shipped(), ("config",))

    assert all(fault.path[0] == "config" and fault.message for fault in faults)
    if not faults:
        specs = [read.default, *read.per_role.values()]
        assert {spec.backend for spec in specs if spec is not None} <= {None, *BACKENDS}
