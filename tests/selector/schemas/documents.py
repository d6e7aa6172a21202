"""Documents that are nearly right: what a person may write, with a slip here and there."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tests.selector.conftest import BACKENDS

Documents = st.SearchStrategy[Any]

SLIPS: Documents = st.sampled_from(
    [
        None, True, False, 0, 1, -1, 16, 16.0, 0.5, 2.5, math.nan, math.inf, -math.inf, 10**400, "", " ", "x", "\n",
        "\ud800", "auto", "unknown", "none", [], ["x"], [None], {}, {"x": 1}, {"": "x"}, [{}], [[{}]],
    ]
)  # fmt: skip
KEYS = st.sampled_from(["x", "", " ", ".", "backend", "bakend", "Default", "role", "a.b", "\ud800", "packages", "arch"])


def slipping(good: Documents) -> Documents:
    """Give what is good, but for a slip in about one of sixteen."""
    return st.integers(0, 15).flatmap(lambda turn: SLIPS if turn == 0 else good)


def mapping(fields: dict[str, Documents]) -> Documents:
    """Give a mapping with some of the fields, each with a slip now and then, and rarely a key that is none of them."""
    known = st.fixed_dictionaries({}, optional={name: slipping(field) for name, field in fields.items()})
    strange = st.one_of(*[st.just({})] * 29, st.dictionaries(KEYS, SLIPS, min_size=1, max_size=2))
    return st.tuples(known, strange).map(lambda parts: parts[1] | parts[0])


NAMES: Documents = st.sampled_from([*BACKENDS, *BACKENDS, "auto", "AUTO", "cudnn_attn", "trtllm_attn", "CUDN_ATTN"])
FRACTIONS: Documents = st.sampled_from([0, 1, 0.5, 1.5, -0.1])
SKIP_SOFTMAX = mapping({"target_sparsity": FRACTIONS, "threshold": FRACTIONS, "disabled_until_timestep": FRACTIONS})
DTYPES: Documents = st.sampled_from(["int8", "fp8_e4m3", "float16", "bfloat16", None])
QUANT = mapping(
    {
        "dtype_qk": DTYPES,
        "dtype_vo": DTYPES,
        "q_block_size": st.sampled_from([1, 4, 16, 8]),
        "k_block_size": st.sampled_from([1, 4, 16, 8]),
        "flashinfer_backend": st.sampled_from(["auto", "fa2", "fa4"]),
    }
)
SPECS = mapping({"backend": NAMES, "skip_softmax": SKIP_SOFTMAX, "quant": QUANT})
ENTRIES = NAMES | SPECS
ROLES = st.sampled_from([*["self", "cross", "joint", "a", "a.b", "b"] * 4, "a..b", "", " . ", "\ud800"])
PER_ROLE: Documents = st.recursive(
    st.dictionaries(ROLES, slipping(ENTRIES), max_size=3),
    lambda inner: st.dictionaries(ROLES, slipping(ENTRIES | inner), max_size=3),
    max_leaves=4,
)
CONFIGS = slipping(mapping({"default": ENTRIES, "per_role": PER_ROLE}))

ARCHS: Documents = st.sampled_from(["sm_90", "sm_100", "sm_121", "SM_90", "sm_9", "gfx942", "sm_90\n", None])
DEVICES = st.lists(slipping(mapping({"index": st.just(0), "name": st.just("GPU"), "arch": ARCHS})), max_size=2)
VERSIONS: Documents = st.sampled_from(["2.8.3", "4.0.0b18", "unknown", "two", None])
PACKAGES = mapping(dict.fromkeys(["flashinfer", "flash-attn", "flash-attn-4", "flash_attn", "kernels"], VERSIONS))
FACTS = slipping(
    mapping(
        {
            "platform": st.sampled_from(["cuda", "cuda", "cuda", "rocm", "cpu", "cudda", None]),
            "arch": ARCHS,
            "cudnn": st.sampled_from([91002, 1, 0, None]),
            "driver": st.just("580.65.06"),
            "torch": st.just("2.9.1"),
            "packages": PACKAGES,
            "switches": st.just({"flash_sdp_enabled": True}),
            "unusable": st.just({"flashinfer": "no"}),
            "devices": DEVICES,
            "notes": st.just(["x"]),
        }
    )
)
SIZES: Documents = st.sampled_from([1, 64, 128, 0, "symbolic", "symbolik"])
CAUSAL: Documents = st.sampled_from([True, False, "top_left", "bottom_right", "top", None])
CALLS = mapping(
    {
        "mask": st.sampled_from(["none", "all_keep", "additive", "causal"]),
        "mask_per_head": st.booleans(),
        "dtype": st.sampled_from(["bfloat16", "float32", "fp16"]),
        "seq_len_q": SIZES,
        "seq_len_kv": SIZES,
        "causal": CAUSAL,
    }
)
REQUESTS = mapping(
    {
        "role": st.sampled_from(["self", "cross", ""]),
        "role_category": st.sampled_from(["self", "cross"]),
        "model": st.sampled_from(["WanPipeline", "WanPipline"]),
        "head_dim": SIZES,
        "mask_free": st.booleans(),
        "dtype": st.sampled_from(["bfloat16", "float32", "fp16"]),
        "causal": CAUSAL,
        "num_heads": SIZES,
        "num_kv_heads": SIZES,
        "compile": st.booleans(),
        "call": CALLS,
    }
)
LINES: Documents = st.tuples(
    mapping(
        {
            "id": SLIPS,
            "request": REQUESTS,
            "config": CONFIGS,
            "backend": NAMES,
            "env": mapping(
                {"DIFFUSION_ATTENTION_BACKEND": NAMES, "ATTENTION_SELECTOR_POLICY": st.sampled_from(["strict", "x"])}
            ),
            "policy": st.sampled_from(["fallback", "strict", "strickt", None]),
            "expect": SLIPS,
        }
    ),
    FACTS,
).map(lambda parts: {**parts[0], "facts": parts[1]})
