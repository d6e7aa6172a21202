"""Configuration and policy: paragraph 5 of the contract, and what paragraph 4 says of blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tests.oracle.words import BACKENDS, ENVIRONMENT, POLICY_ENVIRONMENT, InvalidError, Json, given, mapping

POLICIES: Final = ("fallback", "strict")
LINE_KEYS: Final = {"id", "facts", "request", "config", "backend", "env", "policy", "expect"}
BLOCKS: Final = {"quant", "skip_softmax"}
QUANT: Final = ("dtype_qk", "dtype_vo", "q_block_size", "k_block_size", "flashinfer_backend")
# The most that each may be; the least is 0.
SKIP_SOFTMAX: Final = {"target_sparsity": 1.0, "threshold": math.inf, "disabled_until_timestep": 1.0}


@dataclass(frozen=True)
class Entry:
    """One entry of the configuration: a backend, and the blocks beside it."""

    backend: str
    quant: dict[str, Json]


@dataclass(frozen=True)
class Config:
    """The configuration after its three forms are joined; no entry here is `auto`."""

    per_role: dict[str, Entry]
    default: Entry | None
    default_origin: str


def exclusive(line: dict[str, Json]) -> bool:
    """Paragraph 5: a flag that is given, even `auto`, beside a structured `default.backend` other than `auto`.

    Reading: a null is not given; what stands in a backend's place and is of a wrong type is still other than `auto`.
    """
    config = line.get("config")
    if line.get("backend") is None or not isinstance(config, dict):
        return False
    default = config.get("default")
    name = default.get("backend") if isinstance(default, dict) else default
    return name is not None and not (isinstance(name, str) and name.lower() == "auto")


def read_config(line: dict[str, Json]) -> Config:
    """Paragraph 5: the structured config, then the flag, then the environment variable."""
    config = mapping(line.get("config"), {"default", "per_role"})
    per_role: dict[str, Entry | None] = {}
    _flatten(mapping(config.get("per_role"), None), "", per_role)
    default, origin = _read_default(config.get("default"), line)
    return Config({role: entry for role, entry in per_role.items() if entry is not None}, default, origin)


def _flatten(tree: dict[str, Json], prefix: str, found: dict[str, Entry | None]) -> None:
    """Paragraph 5: role keys may nest; a block without `backend`, and block keys among roles, are invalid.

    Reading: an empty mapping is a block without `backend`; one role written twice, dotted and nested, is a duplicate.
    """
    for key, value in tree.items():
        role = f"{prefix}{key}"
        if isinstance(value, dict) and value and not set(value) & (BLOCKS | {"backend"}):
            _flatten(value, f"{role}.", found)
            continue
        if role in found:
            raise InvalidError(role)
        found[role] = _joined(*_entry(value))


def _entry(value: Json) -> tuple[str | None, dict[str, Json]]:
    """Paragraph 5: an entry is a backend name or a block. Gives its name in capitals, or None, and its blocks."""
    if isinstance(value, str):
        return _name(value), {}
    block = given(mapping(value, BLOCKS | {"backend"}))
    name = block.get("backend")
    return None if name is None else _name(name), {key: block[key] for key in BLOCKS & set(block)}


def _name(value: Json) -> str:
    """Paragraph 4: names are case-insensitive, and `auto` means that nothing is configured."""
    if not isinstance(value, str) or value.upper() not in {*BACKENDS, "AUTO"}:
        raise InvalidError(value)
    return value.upper()


def _joined(name: str | None, blocks: dict[str, Json]) -> Entry | None:
    """Paragraphs 4 and 5: an entry `auto` is as if absent; a block beside it, or without a backend, is invalid."""
    if name is None:
        raise InvalidError("backend")
    if name == "AUTO":
        if blocks:
            raise InvalidError("auto")
        return None
    return Entry(name, _checked_blocks(name, blocks))


def _read_default(value: Json, line: dict[str, Json]) -> tuple[Entry | None, str]:
    """Paragraph 5: `default` with its own backend, or with the one that the flag or the environment supplies.

    Reading: an environment variable that is not read is not checked for its type either.
    """
    structured, blocks = (None, {}) if value is None else _entry(value)
    environment = mapping(line.get("env"), None)
    if structured == "AUTO":
        _joined(structured, blocks)
    flag = line.get("backend")
    if structured is not None and structured != "AUTO":
        return _joined(structured, blocks), "config"
    if flag is not None:
        return _joined(_name(flag), blocks), "flag"
    if environment.get(ENVIRONMENT):
        return _joined(_name(environment[ENVIRONMENT]), blocks), "env"
    return _joined("AUTO", blocks), "platform"


def _checked_blocks(backend: str, blocks: dict[str, Json]) -> dict[str, Json]:
    """Paragraph 4, quantisation: which backend reads which block. Gives the `quant` block.

    Reading: an empty block is a block, so it needs a backend that reads it; what is null was not given.
    """
    if "skip_softmax" in blocks:
        if backend != "TRTLLM_ATTN":
            raise InvalidError("skip_softmax")
        _check_skip_softmax(given(mapping(blocks["skip_softmax"], set(SKIP_SOFTMAX))))
    if "quant" not in blocks:
        return {}
    quant = given(mapping(blocks["quant"], set(QUANT)))
    if backend == "TRTLLM_ATTN":
        sets: dict[str, tuple[Json, ...]] = {
            "dtype_qk": ("int8", "fp8_e4m3"),
            "q_block_size": (1, 4, 16),
            "k_block_size": (1, 4, 16),
        }
    elif backend == "FLASHINFER_ATTN":
        sets = {
            "dtype_qk": ("float16", "bfloat16"),
            "dtype_vo": ("float16", "bfloat16", "fp8_e4m3"),
            "flashinfer_backend": ("fa2", "fa3", "cute-dsl"),
        }
    else:
        raise InvalidError("quant")
    for key, value in quant.items():
        if not any(type(value) is type(item) and value == item for item in sets.get(key, ())):
            raise InvalidError(key)
    return quant


def _check_skip_softmax(block: dict[str, Json]) -> None:
    """Paragraph 4: not both of `target_sparsity` and `threshold`; nothing out of range, non-finite or boolean."""
    if {"target_sparsity", "threshold"} <= set(block):
        raise InvalidError("skip_softmax")
    for key, value in block.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidError(key)
        if not math.isfinite(value) or not 0 <= value <= SKIP_SOFTMAX[key]:
            raise InvalidError(key)


def read_policy(line: Json) -> str:
    """Paragraphs 4 and 8: the line's policy, else the one of the environment it brings, else `fallback`.

    An unknown key of the line is invalid. Reading: an empty variable is unset, and one that is not read not checked.
    """
    given = mapping(line, LINE_KEYS)
    policy = given.get("policy")
    if policy is None:
        policy = mapping(given.get("env"), None).get(POLICY_ENVIRONMENT) or "fallback"
    if not isinstance(policy, str) or policy not in POLICIES:
        raise InvalidError("policy")
    return policy
