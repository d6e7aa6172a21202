"""The names that the contract lists, and the checks of one value that several parts of it share."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Json: TypeAlias = Any

BACKENDS: Final = (
    "TORCH_SDPA",
    "CUDNN_ATTN",
    "FLASHINFER_ATTN",
    "FLASH_ATTN",
    "SAGE_ATTN",
    "SAGE_ATTN_3",
    "FLASH_ATTN_HUB",
    "FLASH_ATTN_3_HUB",
    "TRTLLM_ATTN",
)
DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
MASKS: Final = (
    "none",
    "all_keep",
    "suffix_key_padding",
    "key_padding",
    "key_and_query_padding",
    "block_diagonal",
    "boolean_per_query",
    "additive",
)
ENVIRONMENT: Final = "DIFFUSION_ATTENTION_BACKEND"
POLICY_ENVIRONMENT: Final = "ATTENTION_SELECTOR_POLICY"


class InvalidError(ValueError):
    """The line cannot be taken as it stands."""


def mapping(value: Json, keys: set[str] | None) -> dict[str, Json]:
    """A mapping with no key but these, or the empty one for null."""
    if value is None:
        return {}
    if not isinstance(value, dict) or (keys is not None and not set(value) <= keys):
        raise InvalidError(value)
    return value


def given(block: dict[str, Json]) -> dict[str, Json]:
    """What of a block is not null."""
    return {key: value for key, value in block.items() if value is not None}


def text(value: Json) -> str | None:
    """A string, or None."""
    if value is not None and not isinstance(value, str):
        raise InvalidError(value)
    return value


def boolean(value: Json) -> bool | None:
    """A boolean, or None."""
    if value is not None and not isinstance(value, bool):
        raise InvalidError(value)
    return value


def count(value: Json) -> int | None:
    """An integer of at least 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidError(value)
    return value
