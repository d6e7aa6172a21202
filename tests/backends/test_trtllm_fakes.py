"""The fake of trtllm-gen shows a wrong call: each mistake gives a visibly wrong number, or the real one's error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.reference import attention
from tests.backends.cases import Sizes
from tests.backends.fakes import flashinfer_trtllm as fake
from tests.backends.fakes.flashinfer_numbers import alone

if TYPE_CHECKING:
    from torch import Tensor

ONE = Sizes(batch=1, head_dim=128, dtype=torch.bfloat16)


def direct(q: Tensor, k: Tensor, v: Tensor, lengths: tuple[list[int], list[int]], **options: object) -> Tensor:
    """The fake itself on documents, as it should be called but for `options`."""
    offsets = [torch.tensor([0, *torch.tensor(x).cumsum(0).tolist()], dtype=torch.int32) for x in lengths]
    arguments: dict[str, object] = {
        "query": q[0], "key": k[0], "value": v[0], "workspace_buffer": torch.zeros(8, dtype=torch.uint8),
        "seq_lens": torch.tensor(lengths[1], dtype=torch.int32), "max_q_len": max(lengths[0]),
        "max_kv_len": max(lengths[1]), "bmm1_scale": q.shape[3] ** -0.5, "bmm2_scale": 1.0, "o_sf_scale": 1.0,
        "batch_size": len(lengths[0]), "window_left": -1, "cum_seq_lens_q": offsets[0], "cum_seq_lens_kv": offsets[1],
        "enable_pdl": None, "is_causal": False, "return_lse": False, "skip_all_rows_active_check": True,
    }  # fmt: skip
    return alone(fake.trtllm_ragged_attention_deepseek(**(arguments | options)))[None]  # type: ignore[arg-type]


def distance(out: Tensor, expected: Tensor) -> float:
    """The largest error; a number that is none counts as one."""
    return (out.double() - expected).abs().nan_to_num(nan=1.0).max().item()


DOCUMENTS = ([4, 5], [6, 7])
WRONG: dict[str, dict[str, object]] = {
    "lengths in 64 bits": {"seq_lens": torch.tensor([6, 7])},
    "offsets of queries in 64 bits": {"cum_seq_lens_q": torch.tensor([0, 4, 9])},
    "offsets of keys in 64 bits": {"cum_seq_lens_kv": torch.tensor([0, 6, 13])},
    "a workspace that is not zero": {"workspace_buffer": torch.ones(8, dtype=torch.uint8)},
    "scale forgotten": {"bmm1_scale": 1.0},
    "causal": {"is_causal": True},
    "lengths of another call": {"seq_lens": torch.tensor([6, 3], dtype=torch.int32)},
    "a document without keys": {
        "seq_lens": torch.tensor([6, 0], dtype=torch.int32),
        "cum_seq_lens_kv": torch.tensor([0, 6, 6], dtype=torch.int32),
    },
}


@pytest.mark.parametrize("mistake", WRONG)
def test_the_fake_shows_a_mistake(mistake: str) -> None:
    """In its numbers; called rightly it is right."""
    q, k, v = ONE.qkv()
    expected = attention(q, k, v, mask=masks.block_diagonal(*DOCUMENTS))

    assert distance(direct(q, k, v, DOCUMENTS), expected) < 5e-2
    assert distance(direct(q, k, v, DOCUMENTS, **WRONG[mistake]), expected) > 0.1


def test_the_fake_reads_queries_as_dense() -> None:
    """A transposed query gives other numbers."""
    q, k, v = ONE.qkv()
    strided = q.transpose(1, 2).contiguous().transpose(1, 2)

    assert torch.equal(strided, q)
    assert distance(direct(strided, k, v, ([9], [13])), attention(q, k, v)) > 0.1


def test_the_fake_wants_one_word_about_empty_sequences() -> None:
    """Lengths on the host and the promise that none is empty exclude each other."""
    q, k, v = ONE.qkv()
    lengths = torch.tensor([9]), torch.tensor([13])

    with pytest.raises(ValueError, match="cannot be combined"):
        direct(q, k, v, ([9], [13]), q_seq_lens_cpu=lengths[0], kv_seq_lens_cpu=lengths[1])
    with pytest.raises(AssertionError, match="Unsupported head dimensions"):
        direct(q[..., :64], k[..., :64], v[..., :64], ([9], [13]))


def quantised(q: Tensor, k: Tensor, v: Tensor, *, smooth_k: bool = False) -> dict[str, object]:
    """The arguments that the quantiser's results become."""
    q8, k8, v8, q_scales, k_scales, v_scales, *_ = fake.trtllm_sage_attention_quantize(
        q[0], k[0], v[0], smooth_k=smooth_k
    )
    return {"query": q8, "key": k8, "value": v8, "sage_attn_sfs": (q_scales, k_scales, None, v_scales)}


def test_the_fake_shows_scales_of_other_blocks() -> None:
    """Quantised with one query and sixteen keys to a scale; read with others it is wrong or reads past the scales."""
    q, k, v = replace(ONE, seq_q=40, seq_kv=99).qkv()
    q = q * torch.linspace(0.1, 3, 40)[None, :, None, None].bfloat16()
    expected, options = attention(q, k, v), quantised(q, k, v, smooth_k=True)

    right = direct(q, k, v, ([40], [99]), **options, num_elts_per_sage_attn_blk=(1, 16, 0, 1))
    wrong = direct(q, k, v, ([40], [99]), **options, num_elts_per_sage_attn_blk=(4, 16, 0, 1))
    forgotten = direct(q, k, v, ([40], [99]), **(options | {"sage_attn_sfs": (None,) * 4}))

    assert distance(right, expected) < 0.15
    assert distance(wrong, expected) > 0.2
    assert distance(forgotten, expected) > 0.2
    with pytest.raises(IndexError):
        direct(q, k, v, ([40], [99]), **options, num_elts_per_sage_attn_blk=(1, 4, 0, 1))


def test_the_fake_is_not_finite_below_a_block_of_keys() -> None:
    """Once quantised."""
    q, k, v = ONE.qkv()

    out = direct(q, k, v, ([9], [13]), **quantised(q, k, v), num_elts_per_sage_attn_blk=(1, 16, 0, 1))

    assert not bool(out.isfinite().any())
