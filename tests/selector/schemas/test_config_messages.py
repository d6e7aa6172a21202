from __future__ import annotations

import math

import pytest

from selector.config import read_config
from selector.faults import place
from selector.rules.problems import Place, Problem
from selector.ruleset import shipped
from selector.structure import schema_faults
from tests.selector.conftest import BACKENDS

KNOWN = f"known: {', '.join(BACKENDS)}"


def told(name: str, value: object) -> list[str]:
    """Give every problem of a document as a person reads it."""
    return [str(problem) for problem in place(schema_faults(name, value), name)]


def line(name: str, path: str, code: str, message: str, hint: str | None) -> str:
    """Write one problem as it is shown."""
    return str(Problem(Place(name, path=path), code, message, hint))


def trtllm(**blocks: object) -> dict[str, object]:
    """Write a config whose default is TRTLLM_ATTN with some blocks."""
    return {"default": {"backend": "TRTLLM_ATTN", **blocks}}


CONFIGS: list[tuple[object, str, str, str, str | None]] = [
    (None, "", "wrong-type", "wanted a mapping with `default` and `per_role`, got null", None),
    ([], "", "wrong-type", "wanted a mapping with `default` and `per_role`, got a list", None),
    ({"defualt": "CUDNN_ATTN"}, "defualt", "unknown-key", "no key `defualt` here", "did you mean `default`?"),
    ({"xyz": {}}, "xyz", "unknown-key", "no key `xyz` here", "known here: default, per_role"),
    ({"default": 5}, "default", "wrong-type", "`default`: wanted a backend name or a mapping, got the number 5", None),
    ({"default": " "}, "default", "unknown-backend", "no backend ` `", KNOWN),
    ({"per_role": None}, "per_role", "wrong-type", "`per_role`: wanted a mapping of roles, got null", None),
    (
        {"per_role": {"cross": ["CUDNN_ATTN"]}},
        "per_role.cross",
        "wrong-type",
        "`cross`: wanted a backend name or a mapping, got a list",
        None,
    ),
    (
        {"per_role": {"ltx2": {"audio_self": True}}},
        "per_role.ltx2.audio_self",
        "wrong-type",
        "`audio_self`: wanted a backend name or a mapping, got true",
        None,
    ),
    (
        {"per_role": {"a..b": "CUDNN_ATTN"}},
        "per_role.a..b",
        "bad-role",
        "`a..b` is no name for a role: wanted names joined with dots",
        None,
    ),
    (
        {"per_role": {"a": {" ": "CUDNN_ATTN"}}},
        "per_role.a. ",
        "bad-role",
        "`a. ` is no name for a role: wanted names joined with dots",
        None,
    ),
    (
        {"per_role": {"cross": {"quant": {}}}},
        "per_role.cross",
        "no-backend",
        "the entry for `cross` names no `backend`: nothing would read it",
        None,
    ),
    (
        {"per_role": {"cross": {}}},
        "per_role.cross",
        "no-backend",
        "the entry for `cross` names no `backend`: nothing would read it",
        None,
    ),
    (
        {"per_role": {"a": {"backend": "CUDNN_ATTN", "audio": "CUDNN_ATTN"}}},
        "per_role.a.audio",
        "mixed-roles",
        "`a` mixes the key of an entry with the nested role `audio`",
        "an entry holds backend, skip_softmax, quant",
    ),
    (
        {"per_role": {"a": {"backend": "CUDNN_ATTN", "quan": "x"}}},
        "per_role.a.quan",
        "unknown-key",
        "no key `quan` here",
        "did you mean `quant`?",
    ),
    (
        {"default": {"backend": 5}},
        "default.backend",
        "wrong-type",
        "`backend`: wanted a string, got the number 5",
        None,
    ),
    (
        {"default": {"backend": "auto", "quant": {}}},
        "default.quant",
        "dropped-block",
        "`quant` stands beside `auto`, so nothing would read it",
        None,
    ),
    (
        {"default": {"backend": "cudnn_attn", "skip_softmax": {}}},
        "default.skip_softmax",
        "unread-block",
        "CUDNN_ATTN does not read `skip_softmax`",
        "TRTLLM_ATTN does",
    ),
    (
        trtllm(quant={"dtype_vo": "float16"}),
        "default.quant.dtype_vo",
        "unread-field",
        "TRTLLM_ATTN does not read `quant.dtype_vo`",
        "it reads dtype_qk, q_block_size, k_block_size",
    ),
    (
        trtllm(quant={"dtype_qk": "int4"}),
        "default.quant.dtype_qk",
        "bad-value",
        "`dtype_qk`: wanted one of int8, fp8_e4m3 for TRTLLM_ATTN, got the string `int4`",
        "did you mean `int8`?",
    ),
    (
        trtllm(quant={"q_block_size": 2}),
        "default.quant.q_block_size",
        "bad-value",
        "`q_block_size`: wanted one of 1, 4, 16 for TRTLLM_ATTN, got the number 2",
        None,
    ),
    (
        trtllm(quant={"q_block_size": 16.0}),
        "default.quant.q_block_size",
        "wrong-type",
        "`q_block_size`: wanted an integer, got the number 16.0",
        None,
    ),
    (
        trtllm(quant={"k_block_size": True}),
        "default.quant.k_block_size",
        "wrong-type",
        "`k_block_size`: wanted an integer, got true",
        None,
    ),
    (
        trtllm(skip_softmax=[]),
        "default.skip_softmax",
        "wrong-type",
        "`skip_softmax`: wanted a mapping, got a list",
        None,
    ),
    (
        trtllm(skip_softmax={"threshold": "0.5"}),
        "default.skip_softmax.threshold",
        "wrong-type",
        "`threshold`: wanted a number, got the string `0.5`",
        None,
    ),
    (
        trtllm(skip_softmax={"threshold": math.nan}),
        "default.skip_softmax.threshold",
        "wrong-type",
        "`threshold`: wanted a finite number, got the number nan",
        None,
    ),
    (
        trtllm(skip_softmax={"threshold": -1}),
        "default.skip_softmax.threshold",
        "out-of-range",
        "`threshold`: wanted a number of at least 0, got the number -1",
        None,
    ),
    (
        trtllm(skip_softmax={"target_sparsity": 1.5}),
        "default.skip_softmax.target_sparsity",
        "out-of-range",
        "`target_sparsity`: wanted a number of at most 1, got the number 1.5",
        None,
    ),
    (
        trtllm(skip_softmax={"target_sparsity": 0.5, "threshold": 1}),
        "default.skip_softmax",
        "bad-value",
        "wanted one of `target_sparsity` and `threshold`, got both",
        None,
    ),
]


@pytest.mark.parametrize(("config", "path", "code", "message", "hint"), CONFIGS)
def test_says_what_is_wrong_with_a_config(config: object, path: str, code: str, message: str, hint: str | None) -> None:
    """With the path, what was wanted, what was got, and the nearest name."""
    assert told("config", config) == [line("config", path, code, message, hint)]


@pytest.mark.parametrize("config", [config for config, *_ in CONFIGS])
def test_a_config_is_told_in_the_words_of_the_models(config: object) -> None:
    """Whichever of the two finds a mistake, a person reads the same."""
    faults, _ = read_config(config, shipped())

    assert schema_faults("config", config) == faults
