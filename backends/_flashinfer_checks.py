"""What no kernel of FlashInfer can honour, and so refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backends.interface import BindError, CallRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from backends._checks import CallShape
    from backends.interface import Causal
    from backends.masks import Kind, Mask

UNMASKED: tuple[Kind, ...] = ("none", "all_keep")
LENGTHS: tuple[Kind, ...] = (*UNMASKED, "suffix_key_padding", "block_diagonal")
"""The kinds of mask that are lengths of sequences, and cost nothing."""


def check_kind(mask: Mask, kinds: Collection[Kind], taker: str) -> None:
    """Raises `CallRefused` unless the mask is of one of the kinds."""
    if mask.kind not in kinds:
        raise CallRefused(f"mask `{mask.kind}`: wanted one that {taker} takes ({', '.join(kinds)}), got {mask.kind}")


def check_alignment(mask: Mask, call: CallShape, causal: Causal | None) -> None:
    """Raises `CallRefused` for a causal diagonal that a kernel would not align as it is meant."""
    if causal is None:
        return
    if mask.kind not in UNMASKED:
        raise CallRefused(f"`causal`: wanted none beside a mask `{mask.kind}`, got `{causal}`")
    if causal == "top_left" and call.seq_len_q != call.seq_len_kv:
        lengths = f"{call.seq_len_q} queries and {call.seq_len_kv} keys"
        raise CallRefused(f"`causal`: wanted `bottom_right` for {lengths}, got `{causal}`")


def check_fields(where: str, got: Iterable[str], wanted: Collection[str]) -> None:
    """Raises `BindError` for an option that is not read."""
    for field in got:
        if field not in wanted:
            raise BindError(f"{where}: wanted {', '.join(f'`{name}`' for name in wanted)}, got `{field}`")


def block(name: str, spec: Mapping[str, object], key: str, fields: Collection[str]) -> Mapping[str, object]:
    """The block `key` of a spec, empty where there is none; raises `BindError` for what is no block or not read."""
    value = spec.get(key)
    value = {} if value is None else value
    if not isinstance(value, Mapping):
        raise BindError(f"`{key}` of `{name}`: wanted a mapping, got {value!r}")
    check_fields(f"`{key}` of `{name}`", value, fields)
    return {field: item for field, item in value.items() if item is not None}


def imported(name: str, importer: Callable[[str], object], module: str, symbol: str) -> object:
    """A symbol of a package; raises `BindError`, with the package's own error as its cause, where there is none.

    Whatever is raised counts: a broken wheel raises `OSError`, and where there is no GPU the import itself asserts.
    """
    try:
        return getattr(importer(module), symbol)
    except Exception as error:
        raise BindError(f"`{name}`: wanted `{module}.{symbol}`, got {type(error).__name__}: {error}") from error
