"""Random machines, configs and requests, with names that no well-meaning user would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from selector.ruleset import shipped
from tests.selector.rendering.cases import HOSTILE, Case

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSIONS = ("4.0.0b17", "4.0.0b18", "0.6.16rc1", "2.8.3", "unknown", None)
_ROLES = (
    "self", "cross", "joint", "ltx2.audio_to_video", HOSTILE, "e\u0301" * 30, "日本語" * 20, "a" * 200,
    "subgraph direction LR end style classDef click",
)  # fmt: skip


def _some(values: Mapping[str, st.SearchStrategy[object]]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional=values)


def anything() -> st.SearchStrategy[str]:
    """Give text of every character there is, lone surrogates as well."""
    return st.text(st.characters(exclude_categories=()), min_size=1, max_size=30)


def roles() -> st.SearchStrategy[str]:
    """Give names of roles, honest and hostile."""
    return st.sampled_from(_ROLES) | anything()


def packages() -> st.SearchStrategy[dict[str, str | None]]:
    """Give versions of some packages; the others are absent."""
    return st.dictionaries(st.sampled_from(list(shipped().vocabulary.packages)), st.sampled_from(_VERSIONS))


def facts() -> st.SearchStrategy[dict[str, object]]:
    """Give the facts of a machine, some of them unknown."""
    arches = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", None)
    arch, cudnn = st.sampled_from(arches), st.sampled_from((91002, 90400, None))
    cuda = _some({"arch": arch, "cudnn": cudnn, "packages": packages()}).map(
        lambda known: {"platform": "cuda", **known}
    )
    return cuda | cuda | _some({"platform": st.sampled_from(("rocm", "cpu"))})


def calls() -> st.SearchStrategy[dict[str, object]]:
    """Give one call."""
    vocabulary = shipped().vocabulary
    lengths = st.sampled_from((1, 7, 4096))
    return st.fixed_dictionaries(
        {"mask": st.sampled_from(vocabulary.facts["mask"].values)},
        optional={
            "dtype": st.sampled_from(vocabulary.facts["dtype"].values), "seq_len_q": lengths, "seq_len_kv": lengths,
            "causal": st.sampled_from((None, "top_left", "bottom_right")),
        },
    )  # fmt: skip


def requests() -> st.SearchStrategy[dict[str, object]]:
    """Give a request that is valid."""
    return _some({
        "role": roles(), "model": st.sampled_from(("WanPipeline", "Lightricks/LTX-2")) | anything(),
        "head_dim": st.sampled_from((64, 72, 128, 512, "symbolic")), "mask_free": st.booleans(),
        "dtype": st.sampled_from(("bfloat16", "float16", "float32")), "compile": st.booleans(),
        "num_heads": st.sampled_from((8, 12)), "num_kv_heads": st.sampled_from((4, 8)), "call": calls(),
    })  # fmt: skip


def situations() -> st.SearchStrategy[Case]:
    """Give a question to a selector."""
    backends = st.none() | st.sampled_from(list(shipped().backends))
    return st.builds(
        Case, facts=facts(), request=requests(), backend=backends, policy=st.sampled_from((None, "strict"))
    )
