"""Decide lines without end, the same ones for the same seed, over the whole space that the contract speaks of.

A line is drawn part by part. Most lines are valid; some get one flaw. Left out is what the contract leaves open.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from tests.oracle.flaws import FLAWS
from tests.oracle.layers import CATEGORIES, LTX2, MASKED, WAN
from tests.oracle.words import BACKENDS, DTYPES, ENVIRONMENT, MASKS, POLICY_ENVIRONMENT

Json: TypeAlias = Any
Line: TypeAlias = dict[str, Json]

MISSING: Final = object()
CUDA_ARCHS: Final = (
    *("sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_101", "sm_103"),
    *("sm_110", "sm_120", "sm_121", "sm_122", "sm_130", "sm_70", "sm_102", "sm_123", None, MISSING),
)
CUDNN: Final = (None, MISSING, 8907, 90100, 90499, 90500, 91002, 91900)
VERSIONS: Final[dict[str, tuple[Json, ...]]] = {
    "flashinfer": ("0.6.15", "0.6.16rc1", "0.6.16", "0.6.18"),
    "flash-attn": ("2.8.3", "2.8.3.post2", "2.7.4"),
    "flash-attn-3": ("3.0.0b1", "3.0.0"),
    "flash-attn-4": ("4.0.0b9", "4.0.0b17", "4.0.0b18", "4.0.0", "4.0.0b36"),
    "sageattention": ("1.0.6", "2.2.0"),
    "sageattn3": ("1.0.0",),
    "kernels": ("0.14.1", "0.16.1"),
}
HEAD_DIMS: Final = (1, 8, 12, 40, 64, 72, 96, 128, 129, 160, 192, 256, 264, 320, "symbolic")
# Where each backend may run, or nearly.
AIMS: Final = {
    "TORCH_SDPA": ("sm_75", "sm_90", "sm_120"),
    "CUDNN_ATTN": ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "sm_122", "sm_130"),
    "FLASHINFER_ATTN": ("sm_75", "sm_90", "sm_100", "sm_103"),
    "FLASH_ATTN": ("sm_80", "sm_86", "sm_90", "sm_90", "sm_100", "sm_110", "sm_120"),
    "SAGE_ATTN": ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120", "sm_121"),
    "SAGE_ATTN_3": ("sm_120", "sm_121", "sm_122"),
    "FLASH_ATTN_HUB": ("sm_75", "sm_80", "sm_90", "sm_100", "sm_101", "sm_130"),
    "FLASH_ATTN_3_HUB": ("sm_80", "sm_90", "sm_90", "sm_100"),
    "TRTLLM_ATTN": ("sm_100", "sm_103", "sm_100", "sm_103", "sm_120"),
}
# Those that need most, so that lines aim at them more often.
RARE: Final = ("TRTLLM_ATTN", "TRTLLM_ATTN", "TRTLLM_ATTN", "SAGE_ATTN", "SAGE_ATTN_3", "FLASH_ATTN_3_HUB")
HEADS: Final = ((16, 16), (16, 4), (16, 1), (24, 8), (1, 1), (MISSING, MISSING), (16, MISSING), (MISSING, 4))
ROLES: Final = ("self", "cross", "joint", *CATEGORIES, "x.y.z", "ltx2.nothing")
ROLE_CATEGORIES: Final = ("self", "cross", "joint", "other", MISSING, None)
MODELS: Final = (*WAN, *MASKED, *LTX2, *LTX2, *LTX2, "SomebodyElsesPipeline", "wanpipeline", "LTX2Pipelin")
LENGTHS: Final = ((512, 512), (512, 700), (700, 512), (512, 1), (1, 1), (1, 512), (77, 77))
QUANTS: Final[dict[str, dict[str, tuple[Json, ...]]]] = {
    "TRTLLM_ATTN": {
        "dtype_qk": ("int8", "fp8_e4m3"),
        "q_block_size": (1, 4, 16),
        "k_block_size": (1, 4, 16),
    },
    "FLASHINFER_ATTN": {
        "dtype_qk": ("float16", "bfloat16"),
        "dtype_vo": ("float16", "bfloat16", "fp8_e4m3"),
        "flashinfer_backend": ("fa2", "fa3", "cute-dsl"),
    },
}
SKIPS: Final[tuple[Json, ...]] = (
    {"target_sparsity": 0.65, "disabled_until_timestep": 0.86},
    {"threshold": 0.1},
    {"threshold": 7.5},
    {"target_sparsity": 1},
    {"target_sparsity": 0},
    {"disabled_until_timestep": 0.5},
    {},
)


def situations(seed: int, count: int) -> Iterator[Line]:
    """The first `count` lines of a seed, with the ids 0, 1, and so on."""
    draw = Draw(random.Random(seed))
    for number in range(count):
        yield {"id": number} | draw.line()


class Draw:
    """Draws lines from one source of chance.

    Half of the lines aim at a backend: it is named more often than not, on a GPU that it runs on or nearly so, with
    usual sizes and most packages, so that one need is missed rather than all of them. The others are drawn at large.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.aim: str | None = None

    def line(self) -> Line:
        """One line: facts, request, a configuration in up to three forms, a policy, and now and then a flaw."""
        self.aim = self.one(*AIMS, *RARE) if self.often(0.5) else None
        line: Line = {"facts": self.facts(), "request": self.request()}
        if self.often(0.7 if self.aim else 0.55):
            self.configure(line)
        if self.often(0.5):
            line["policy"] = self.one("fallback", "strict")
        if self.often(0.03):
            line["expect"] = {"backend": "NOBODY_READS_THIS"}
        if self.often(0.12):
            self.one(*FLAWS)(self.chance, line)
        return line

    def near(self) -> bool:
        """Whether to stay near what the line aims at."""
        return self.aim is not None and self.often(0.9)

    def one(self, *values: Json) -> Json:
        """One of the values."""
        return self.chance.choice(values)

    def often(self, share: float) -> bool:
        """True in this share of the draws."""
        return self.chance.random() < share

    # -------------------------------------------------------------------------------------------- facts

    def facts(self) -> Line:
        """A machine: most have CUDA."""
        facts: Line = {}
        if self.aim is not None and self.near():
            facts |= {"platform": "cuda", "arch": self.one(*AIMS[self.aim])}
        elif self.often(0.8):
            facts |= {"platform": "cuda", "arch": self.one(*CUDA_ARCHS)}
        else:
            facts["platform"] = self.one("rocm", "xpu", "npu", "musa", "cpu")
            facts["arch"] = self.one(None, MISSING, "gfx942", "sm_100", "max1550")
        facts |= {"cudnn": self.one(*CUDNN), "packages": self.packages()}
        if self.often(0.03):
            facts |= {"torch": "2.9.0+cu130", "driver": "580.65.06", "switches": {}}
        facts = {key: value for key, value in facts.items() if value is not MISSING}
        if "arch" in facts and self.often(0.03):
            device = {"index": 0, "name": "a device", "arch": facts.pop("arch"), "memory": 85899345920}
            facts["devices"] = [device]
        return facts

    def packages(self) -> Json:
        """All, none, a subset, or no mapping at all."""
        if self.often(0.04):
            return self.one(MISSING, None)
        share = self.one(0.5, 0.9, 1.0) if self.near() else self.one(0.0, 0.3, 0.6, 0.9)
        found: Line = {}
        for name, versions in VERSIONS.items():
            if self.often(share):
                found[name] = self.one(*versions) if self.often(0.95) else self.one(None, "unknown")
        return found

    # -------------------------------------------------------------------------------------------- request

    def request(self) -> Line:
        """A layer: a role, and any of the facts about it."""
        request: Line = {}
        given: tuple[tuple[str, float, tuple[Json, ...]], ...] = (
            ("role", 0.8, ROLES),
            ("role_category", 0.3, ROLE_CATEGORIES),
            ("model", 0.25, MODELS),
            ("head_dim", 0.75, (64, 128, 128, "symbolic", None) if self.near() else (*HEAD_DIMS, None)),
            ("mask_free", 0.65, (True, True, True, False, None)),
            ("dtype", 0.4, ("bfloat16", "bfloat16", "float16") if self.near() else (*DTYPES, None)),
            ("compile", 0.4, (True, False, None)),
            ("causal", 0.05, ("top_left", "bottom_right", False, None)),
        )
        for key, share, values in given:
            value = self.one(*values) if self.often(share) else MISSING
            if value is not MISSING:
                request[key] = value
        if request.get("model") in LTX2 and self.often(0.7):
            request |= {"role": self.one(*CATEGORIES, "self", "cross"), "compile": self.one(True, True, False, None)}
            request.pop("head_dim", None)
        if self.often(0.5):
            self.fill(request, ("num_heads", "num_kv_heads"), (16, 16) if self.near() else self.one(*HEADS))
        if self.often(0.05):
            self.fill(request, ("seq_len_q", "seq_len_kv"), self.one(*LENGTHS))
        if self.often(0.45):
            request["call"] = self.call()
        return request

    def call(self) -> Line:
        """A call: every kind of mask, dtype, pair of lengths and alignment; now and then a fact is left out."""
        q, kv = self.one(*LENGTHS)
        plain = self.near() and self.often(0.4)
        call: Line = {
            "mask": self.one("none", "all_keep", "suffix_key_padding") if plain else self.one(*MASKS),
            "dtype": self.one("bfloat16", "bfloat16", "bfloat16", "float16", "float16", "float32", "float32", *DTYPES),
            "seq_len_q": q,
            "seq_len_kv": kv,
            "causal": self.one(None, None, "top_left", "bottom_right"),
        }
        if self.often(0.05):
            del call[self.one("dtype", "causal", "seq_len_q", "seq_len_kv")]
        return call

    def fill(self, target: Line, keys: tuple[str, str], values: tuple[Json, Json]) -> None:
        """Writes the values that are not missing."""
        target.update({key: value for key, value in zip(keys, values, strict=True) if value is not MISSING})

    # -------------------------------------------------------------------------------------------- configuration

    def configure(self, line: Line) -> None:
        """The structured config, the flag and the environment: each alone, or together."""
        structured, flag, environment = self.often(0.75), self.often(0.25), self.often(0.25)
        if structured:
            line["config"] = self.config()
        if flag:
            line["backend"] = self.name(bad=0.04)
        if environment:
            line["env"] = {ENVIRONMENT: "" if self.often(0.1) else self.name(bad=0.08)}
            if self.often(0.1):
                line["env"] = {"HOME": "/root"} | line["env"]
        if self.often(0.04):
            policy = self.one("strict", "strict", "fallback", "")
            line["env"] = line.get("env", {}) | {POLICY_ENVIRONMENT: policy}

    def config(self) -> Line:
        """A structured config, in any of its forms."""
        config: Line = {}
        if self.often(0.65):
            config["default"] = self.entry(default=True)
        if self.often(0.6):
            config["per_role"] = self.per_role()
        return dict(reversed(config.items())) if self.often(0.2) else config

    def per_role(self) -> Line:
        """Entries for roles and categories, some of them nested."""
        tree: Line = {}
        for role in self.chance.sample(ROLES, self.one(0, 1, 2, 3)):
            tree[role] = self.entry(default=False)
        return self.nested(tree) if self.often(0.4) else tree

    def nested(self, flat: Line) -> Line:
        """The same entries with dotted roles as trees."""
        tree: Line = {}
        for role, entry in flat.items():
            *parents, last = role.split(".")
            place = tree
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = entry
        return tree

    def entry(self, *, default: bool) -> Json:
        """A name, or a block: with nothing, with what its backend reads, or with what it does not."""
        name = self.name(bad=0.02)
        if self.often(0.35):
            return name
        entry: Line = {"backend": name}
        fields = QUANTS.get(name.upper(), {})
        if fields and self.often(0.8):
            entry["quant"] = {key: self.one(*values) for key, values in fields.items() if self.often(0.6)}
        if name.upper() == "TRTLLM_ATTN" and self.often(0.4):
            entry["skip_softmax"] = dict(self.one(*SKIPS))
        if default and len(entry) > 1 and self.often(0.4):
            del entry["backend"]
        return entry

    def name(self, *, bad: float) -> str:
        """A backend's name in some mixture of letters, `auto`, or a name of nothing."""
        if self.often(bad):
            return str(self.one("nope", "FLASH", "TORCH_SDPA ", "FLASH_ATTN_4"))
        name = self.aim if self.aim is not None and self.often(0.7) else str(self.one(*BACKENDS, "auto"))
        if name == "auto":
            return str(self.one("auto", "AUTO", "Auto"))
        return self.one(name, name, name.lower(), name.title()) if self.often(0.3) else name
