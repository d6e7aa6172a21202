"""Layers: the request of paragraph 2 of the contract, with what the models and roles of paragraph 9 supply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.oracle.words import DTYPES, MASKS, InvalidError, Json, boolean, count, mapping, text

ALIGNMENTS: Final = ("top_left", "bottom_right")
REQUEST_KEYS: Final = {
    "role",
    "role_category",
    "model",
    "head_dim",
    "mask_free",
    "dtype",
    "causal",
    "num_heads",
    "num_kv_heads",
    "seq_len_q",
    "seq_len_kv",
    "compile",
    "call",
}
CALL_KEYS: Final = {"mask", "dtype", "seq_len_q", "seq_len_kv", "causal"}
LENGTHS: Final = ("seq_len_q", "seq_len_kv")
WAN: Final = (
    "WanPipeline",
    "WanImageToVideoPipeline",
    "WanVACEPipeline",
    "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
)
MASKED: Final = (
    "HunyuanVideo15Pipeline",
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
    "QwenImagePipeline",
    "Qwen/Qwen-Image",
    "Flux2Pipeline",
    "black-forest-labs/FLUX.2-dev",
)
LTX2: Final = ("LTX2Pipeline", "Lightricks/LTX-2")
LTX2_AUDIO: Final = ("ltx2.audio_self", "ltx2.audio_text_cross", "ltx2.audio_to_video", "ltx2.video_to_audio")
CATEGORIES: Final = {
    "ltx2.audio_to_video": "cross",
    "ltx2.video_to_audio": "cross",
    "ltx2.audio_text_cross": "cross",
    "ltx2.audio_self": "self",
    "ltx2.connector": "self",
}


@dataclass(frozen=True)
class Call:
    """The facts of one call, taken from the call itself and, where it says nothing, from the request."""

    mask: str
    dtype: str | None
    seq_len_q: int | None
    seq_len_kv: int | None
    causal: str | None


@dataclass(frozen=True)
class Request:
    """What a layer asks for, with what its model supplies filled in; None is unknown."""

    role: str
    category: str | None
    head_dim: int | str | None
    mask_free: bool | None
    dtype: str | None
    num_heads: int | None
    num_kv_heads: int | None
    compiled: bool | None
    unknown_model: bool
    call: Call | None


def read_request(value: Json) -> Request:
    """Paragraph 2, request: explicit values win over the model's; null is unknown."""
    given = mapping(value, REQUEST_KEYS)
    texts = {key: text(given.get(key)) for key in ("role", "role_category", "model")}
    role = texts["role"] or "self"
    compiled = boolean(given.get("compile"))
    model = texts["model"]
    mask_free, head_dim = _of_model(model, role, compiled=compiled)
    explicit_mask_free = boolean(given.get("mask_free"))
    explicit_head_dim = _head_dim(given.get("head_dim"))
    causal = given.get("causal")
    if not (causal is None or isinstance(causal, bool) or causal in ALIGNMENTS):
        raise InvalidError("causal")
    for key in ("seq_len_q", "seq_len_kv"):
        count(given.get(key))
    return Request(
        role=role,
        category=texts["role_category"] or CATEGORIES.get(role),
        head_dim=head_dim if explicit_head_dim is None else explicit_head_dim,
        mask_free=mask_free if explicit_mask_free is None else explicit_mask_free,
        dtype=_dtype(given.get("dtype")),
        num_heads=count(given.get("num_heads")),
        num_kv_heads=count(given.get("num_kv_heads")),
        compiled=compiled,
        unknown_model=model is not None and model not in {*WAN, *MASKED, *LTX2},
        call=_read_call(given),
    )


def _of_model(model: str | None, role: str, *, compiled: bool | None) -> tuple[bool | None, int | str | None]:
    """Paragraph 9: the mask-free declaration and the head_dim that a model supplies for a role.

    Reading: Wan and the masked models say the same for every role; LTX-2 says 128 for `self` and `cross` (its video
    roles) and for its text connector (its published shape), 64 for the four roles with audio in them (symbolic when
    compiled), and nothing for any other role.
    """
    if model in WAN:
        return True, 128
    if model in MASKED:
        return False, 128
    if model in LTX2:
        if role in LTX2_AUDIO:
            return False, "symbolic" if compiled else 64
        return False, 128 if role in {"self", "cross", "ltx2.connector"} else None
    return None, None


def _read_call(request: dict[str, Json]) -> Call | None:
    """Paragraphs 2 and 8: `request.call`; what it leaves out is the request's.

    Reading: a call without `mask` is invalid, since the mask is what a call is about.
    """
    value = request.get("call")
    if value is None:
        return None
    call = mapping(value, CALL_KEYS)
    if call.get("mask") not in MASKS:
        raise InvalidError("mask")
    if call.get("causal") not in (None, *ALIGNMENTS):
        raise InvalidError("causal")
    merged = {key: request.get(key) if call.get(key) is None else call[key] for key in ("dtype", *LENGTHS)}
    return Call(
        call["mask"],
        _dtype(merged["dtype"]),
        count(merged["seq_len_q"]),
        count(merged["seq_len_kv"]),
        call.get("causal"),
    )


def _head_dim(value: Json) -> int | str | None:
    return "symbolic" if value == "symbolic" else count(value)


def _dtype(value: Json) -> str | None:
    name = text(value)
    if name is not None and name not in DTYPES:
        raise InvalidError(value)
    return name


def grouped(request: Request) -> bool:
    """Whether the KV heads are known to be other than as many as the heads."""
    known = request.num_heads is not None and request.num_kv_heads is not None
    return known and request.num_heads != request.num_kv_heads


def half(request: Request) -> bool:
    """Paragraph 4: a half dtype, where it is known."""
    return request.dtype in {None, "float16", "bfloat16"}


def bfloat16(request: Request) -> bool:
    """Paragraph 4: bfloat16, where the dtype is known."""
    return request.dtype in {None, "bfloat16"}


def head_dim_of_8_to_256(request: Request) -> bool:
    """Paragraph 4: a multiple of 8 and at most 256, where it is known; `symbolic` counts as unknown."""
    if not isinstance(request.head_dim, int):
        return True
    return request.head_dim % 8 == 0 and request.head_dim <= 256


def head_dim_among(request: Request, *sizes: int) -> bool:
    """Paragraph 4: one of the sizes, where it is known."""
    return not isinstance(request.head_dim, int) or request.head_dim in sizes


def traced_symbolic(request: Request) -> bool:
    """Paragraph 3: compiled with a symbolic head_dim, which cuDNN cannot trace."""
    return request.head_dim == "symbolic" and request.compiled is True


def symbolic_warnings(request: Request) -> tuple[str, ...]:
    """Paragraph 3: a symbolic head_dim with `compile` not given, where cuDNN may be chosen with a warning."""
    return ("compile unknown",) if request.head_dim == "symbolic" and request.compiled is None else ()
