"""Decide lines with one thing wrong, or written in a way that is rare."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tests.oracle.words import ENVIRONMENT, POLICY_ENVIRONMENT

Json: TypeAlias = Any
Line: TypeAlias = dict[str, Json]
Flaw: TypeAlias = Callable[[random.Random, Line], None]

CALL: Final[Line] = {"mask": "none", "dtype": "bfloat16", "seq_len_q": 512, "seq_len_kv": 512, "causal": None}
FACTS: Final[tuple[tuple[str, Json], ...]] = (
    ("platform", "tpu"),
    ("platform", None),
    ("platform", 3),
    ("cudnn", "9.5"),
    ("cudnn", True),
    ("cudnn", 91002.0),
    ("packages", ["flashinfer"]),
    ("packages", {"flashinfer": 0.6}),
    ("packages", {"flashinfer": "new"}),
    ("packages", {"flashinfer-python": "0.6.18"}),
)
ARCHS: Final = ("gfx942", "sm_90a", "sm_9", "sm_090", "90", "SM_90", "sm_1000", 90, True)
REQUESTS: Final[tuple[tuple[str, Json], ...]] = (
    ("role", 3),
    ("role_category", True),
    ("model", 1),
    ("head_dim", 0),
    ("head_dim", -8),
    ("head_dim", True),
    ("head_dim", "64"),
    ("head_dim", 64.0),
    ("mask_free", "yes"),
    ("mask_free", 1),
    ("dtype", "bf16"),
    ("dtype", 16),
    ("causal", "left"),
    ("num_heads", 0),
    ("num_kv_heads", 2.5),
    ("seq_len_q", "512"),
    ("seq_len_kv", -1),
    ("compile", 0),
    ("call", "none"),
)
CALLS: Final[tuple[tuple[str, Json], ...]] = (
    ("mask", "padding"),
    ("mask", 1),
    ("dtype", "half"),
    ("seq_len_kv", -1),
    ("seq_len_q", True),
    ("causal", "right"),
    ("causal", True),
    ("causal", False),
    ("scale", 1.0),
)
CONFIGS: Final[tuple[Json, ...]] = (
    ["TORCH_SDPA"],
    {"default": 5},
    {"default": ["TORCH_SDPA"]},
    {"default": {"backend": "auto", "quant": {"dtype_qk": "int8"}}},
    {"default": {"backend": "AUTO", "skip_softmax": {"threshold": 0.1}}},
    {"default": {"backend": "TORCH_SDPA", "kernel": "x"}},
    {"default": {"quant": {}}},
    {"per_role": "TORCH_SDPA"},
    {"per_role": {"self": {"quant": {"dtype_qk": "int8"}}}},
    {"per_role": {"self": {"backend": "FLASH_ATTN", "inner": "TORCH_SDPA"}}},
    {"per_role": {"ltx2": {"skip_softmax": {"threshold": 0.1}, "audio_self": "TORCH_SDPA"}}},
    {"per_role": {"ltx2": {"audio_self": 7}}},
    {"per_role": {"cross": {"backend": "auto", "skip_softmax": {}}}},
    {"per_role": {"never.asked": "nope"}},
    {"per_role": {"never": {"asked": {"backend": "nope"}}}},
    {"per_role": {"self": None}},
    {"per_role": {"self": {}}},
    {"per_role": {"x": {"y": {}}}},
    {"per_role": {"x.y": "TORCH_SDPA", "x": {"y": "TORCH_SDPA"}}},
    {"per_role": {"x.y": "auto", "x": {"y": "TORCH_SDPA"}}},
    {"default": "TORCH_SDPA", "per_role": {"x": ["TORCH_SDPA"]}},
)
BLOCKS: Final[tuple[Line, ...]] = (
    {"quant": {"dtype_qk": "float16"}},
    {"quant": {"dtype_qk": "int8"}},
    {"quant": {"dtype_qk": "int4"}},
    {"quant": {"dtype_qk": None}},
    {"quant": {"dtype_vo": "float16"}},
    {"quant": {"dtype_vo": "int8"}},
    {"quant": {"q_block_size": 8}},
    {"quant": {"q_block_size": "4"}},
    {"quant": {"k_block_size": True}},
    {"quant": {"k_block_size": 16.0}},
    {"quant": {"flashinfer_backend": "fa3"}},
    {"quant": {"flashinfer_backend": 3}},
    {"quant": {"block_size": 1}},
    {"quant": "int8"},
    {"quant": None},
    {"quant": {}},
    {"skip_softmax": {"target_sparsity": 0.5, "threshold": 0.5}},
    {"skip_softmax": {"target_sparsity": 0.5, "threshold": None}},
    {"skip_softmax": {"target_sparsity": 1.5}},
    {"skip_softmax": {"target_sparsity": False}},
    {"skip_softmax": {"threshold": -0.5}},
    {"skip_softmax": {"threshold": True}},
    {"skip_softmax": {"threshold": "0.1"}},
    {"skip_softmax": {"disabled_until_timestep": 1.5}},
    {"skip_softmax": {"sparsity": 0.5}},
    {"skip_softmax": 0.5},
    {"skip_softmax": None},
    {"skip_softmax": {}},
    {"dtype_qk": "int8"},
)
OTHERS: Final[tuple[tuple[str, Json], ...]] = (
    ("policy", "lenient"),
    ("policy", 1),
    ("backend", 5),
    ("env", "X"),
    ("env", []),
    ("env", {ENVIRONMENT: 1}),
    ("env", {POLICY_ENVIRONMENT: "lenient"}),
    ("env", {POLICY_ENVIRONMENT: 1}),
)
DEFAULTS: Final[tuple[Json, ...]] = ("nope", "TORCH_SDPA", {"backend": "FLASH_ATTN"}, {"backend": "nope"}, 5)


def unknown_key(chance: random.Random, line: Line) -> None:
    """A key that nothing reads, somewhere."""
    place = chance.choice((line, line["facts"], line["request"], line.setdefault("config", {})))
    place[chance.choice(("bakcend", "head_dims", "defualt"))] = 1


def fact(chance: random.Random, line: Line) -> None:
    """A fact of a wrong type or value."""
    key, value = chance.choice(FACTS)
    line["facts"][key] = copy.deepcopy(value)


def arch(chance: random.Random, line: Line) -> None:
    """An architecture that is none of CUDA's."""
    line["facts"] = {"platform": "cuda", "arch": chance.choice(ARCHS)}


def no_platform(chance: random.Random, line: Line) -> None:
    """Facts without a platform."""
    del line["facts"]["platform"]


def nulls(chance: random.Random, line: Line) -> None:
    """Nulls where something might have been given, which is no fault."""
    place = chance.choice(("config", "backend", "env", "policy", "request", "default", "call"))
    if place == "default":
        line["config"] = {"default": chance.choice((None, {}, {"backend": None}))}
    elif place == "call":
        line["request"]["call"] = None
    else:
        line[place] = None


def request(chance: random.Random, line: Line) -> None:
    """A request's fact of a wrong type or value."""
    key, value = chance.choice(REQUESTS)
    line["request"][key] = value


def call(chance: random.Random, line: Line) -> None:
    """A call's fact of a wrong type or value, or a call without a mask."""
    key, value = chance.choice(CALLS)
    line["request"]["call"] = CALL | {key: value}
    if chance.random() < 0.1:
        line["request"]["call"] = {key: value for key, value in CALL.items() if key != "mask"}


def config(chance: random.Random, line: Line) -> None:
    """A structured config that cannot be built."""
    line["config"] = copy.deepcopy(chance.choice(CONFIGS))


def block(chance: random.Random, line: Line) -> None:
    """A block on a backend that may read it or may not, with values that may be in its sets or may not."""
    backend = chance.choice(("TRTLLM_ATTN", "TRTLLM_ATTN", "FLASHINFER_ATTN", "TORCH_SDPA", "auto"))
    entry = copy.deepcopy(chance.choice(BLOCKS))
    if chance.random() < 0.4:
        line["config"] = {"default": entry}
        line["backend"] = backend
    elif chance.random() < 0.5:
        line["config"] = {"default": {"backend": backend} | entry}
    else:
        line["config"] = {"per_role": {chance.choice(("self", "never.asked")): {"backend": backend} | entry}}


def other(chance: random.Random, line: Line) -> None:
    """A policy, a flag or an environment of a wrong type or value."""
    key, value = chance.choice(OTHERS)
    line[key] = copy.deepcopy(value)


def exclusive(chance: random.Random, line: Line) -> None:
    """A flag beside a structured default, with something else wrong."""
    line["config"] = {"default": copy.deepcopy(chance.choice(DEFAULTS))}
    line["config"]["per_role"] = {"self": chance.choice(("nope", "TORCH_SDPA", 1))}
    line["backend"] = chance.choice(("auto", "TORCH_SDPA", "nope"))
    line["facts"]["platform"] = chance.choice(("cuda", "tpu"))


FLAWS: Final[tuple[Flaw, ...]] = (
    unknown_key,
    fact,
    arch,
    no_platform,
    nulls,
    request,
    call,
    config,
    block,
    block,
    block,
    block,
    other,
    exclusive,
)
