"""The mathematics of Skip-Softmax: what is skipped, what comes of it, and which factor a kernel is given."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.calibration import Curve
from backends.interface import Causal
from backends.reference import attention as dense
from backends.skip_softmax import SkipSoftmax, attention, dense_steps
from tests.backends.cases import ALIGNMENTS, Sizes

SIZES = Sizes(batch=1, heads=2, kv_heads=2, seq_q=300, seq_kv=700, head_dim=32)
SHORT = replace(SIZES, seq_q=96, seq_kv=320)


@pytest.mark.parametrize(("kv_heads", "factor"), [(2, None), (1, 0.0)])
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("lengths", [(300, 700), (700, 300), (128, 256), (1, 1), (5, 129)])
def test_nothing_skipped_is_dense(
    lengths: tuple[int, int], kv_heads: int, causal: Causal | None, factor: float | None
) -> None:
    """Streaming changes nothing, whatever is left of the last tiles; rows that see nothing are zeros."""
    sizes = replace(SIZES, kv_heads=kv_heads, seq_q=lengths[0], seq_kv=lengths[1])
    q, k, v = sizes.qkv()

    got = attention(q, k, v, factor=factor, causal=causal, scale=0.3)

    torch.testing.assert_close(got.out, dense(q, k, v, causal=causal, scale=0.3), rtol=0, atol=1e-12)
    assert (got.skipped, got.sparsity) == (0, 0.0)


@pytest.mark.parametrize(
    ("seq_q", "seq_kv", "causal", "tiles"),
    [
        (300, 700, None, 3 * 6),
        (256, 256, "bottom_right", 3),
        (256, 256, "top_left", 3),
        (0, 700, None, 0),
        (9, 0, None, 0),
    ],
)
def test_tiles_are_those_that_are_looked_at(seq_q: int, seq_kv: int, causal: Causal | None, tiles: int) -> None:
    """Of 128 × 128; what a diagonal hides whole is none. Without any, the sparsity is 0."""
    q, k, v = replace(SIZES, seq_q=seq_q, seq_kv=seq_kv).qkv()

    got = attention(q, k, v, factor=None, causal=causal)

    assert got.tiles == tiles * 2
    assert got.sparsity == 0.0


def test_a_minute_threshold_is_nearly_dense() -> None:
    """1e-9 of a weight is not missed."""
    q, k, v = SIZES.qkv()

    got = attention(q * 5, k, v, factor=1e-9 * 700)

    torch.testing.assert_close(got.out, dense(q * 5, k, v), rtol=0, atol=1e-6)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    causal=st.sampled_from(ALIGNMENTS),
    thresholds=st.lists(st.floats(0, 1), min_size=2, max_size=5),
)
def test_a_larger_threshold_skips_no_less(seed: int, causal: Causal | None, thresholds: list[float]) -> None:
    """And below 1 a query never loses its largest score, so its output stays an average of values."""
    sizes = replace(SIZES, seed=seed, heads=1, kv_heads=1, seq_q=32, seq_kv=96)
    q, k, v = sizes.qkv()
    q = q * 4

    results = [attention(q, k, v, factor=t * 96, causal=causal, tile=8) for t in sorted(thresholds)]

    sparsities = [result.sparsity for result in results]
    assert sparsities == sorted(sparsities)
    assert all(result.out.abs().max() <= v.abs().max() + 1e-9 for result in results)


def test_sparsity_grows_from_none_to_much() -> None:
    """Over the range of useful thresholds, and the error with it."""
    q, k, v = SHORT.qkv()
    q = q * 4
    results = [attention(q, k, v, factor=t * 320, tile=8) for t in (0.0, 1e-3, 0.1, 0.5, 0.99)]

    sparsities = [result.sparsity for result in results]
    errors = [(result.out - dense(q, k, v)).norm().item() for result in results]

    assert sparsities == sorted(sparsities)
    assert errors == sorted(errors)
    assert sparsities[0] == 0.0
    assert sparsities[-1] > 0.25


def test_the_rule_by_hand() -> None:
    """Two tiles of keys for two queries: the second is skipped once it is negligible for both."""
    q = torch.tensor([[1.0], [2.0]]).view(1, 2, 1, 1)
    k = torch.tensor([0.0, -1.0]).view(1, 2, 1, 1)
    v = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1)
    just_above, just_below = math.exp(-1) * 1.001, math.exp(-1) * 0.999

    skipped = attention(q, k, v, factor=2 * just_above, scale=1.0, tile=1)
    of_both = attention(q, k, v, factor=2 * just_above, scale=1.0, tile=2)
    kept = attention(q, k, v, factor=2 * just_below, scale=1.0, tile=1)

    assert (skipped.skipped, skipped.tiles) == (2, 4)
    assert skipped.out.flatten().tolist() == [10.0, 10.0]
    assert (kept.skipped, kept.tiles) == (1, 4)
    assert kept.out.flatten()[0].item() == pytest.approx((10 + 20 * math.exp(-1)) / (1 + math.exp(-1)))
    assert (of_both.skipped, of_both.tiles) == (0, 1)


def test_a_tile_is_skipped_only_where_every_query_agrees() -> None:
    """One query that needs it keeps it for the whole tile of queries, and no other."""
    sizes = replace(SIZES, seq_q=256, seq_kv=256, heads=1, kv_heads=1)
    q, k, v = sizes.qkv()
    q, k = torch.zeros_like(q), torch.zeros_like(k)
    q[..., 0], k[:, :128, :, 0] = 1.0, 20.0
    apart = attention(q, k, v, factor=0.5 * 256, scale=1.0)

    q[:, 7, :, 0] = 0.0
    together = attention(q, k, v, factor=0.5 * 256, scale=1.0)

    assert (apart.skipped, together.skipped) == (2, 1)
    assert apart.tiles == together.tiles == 4


def test_the_order_of_keys_matters() -> None:
    """What comes after the largest score can be skipped, what came before it was read."""
    sizes = replace(SIZES, seq_q=128, seq_kv=256, heads=1, kv_heads=1)
    q, k, v = sizes.qkv()
    q, k = torch.ones_like(q), torch.zeros_like(k)
    k[:, :128] = 1.0

    first, last = (attention(q, keys, v, factor=0.5 * 256, scale=1.0) for keys in (k, k.flip(1)))

    assert (first.skipped, last.skipped) == (1, 0)


@pytest.mark.parametrize("threshold", [1.0, 2.0, 1e9])
def test_above_one_something_is_always_read(threshold: float) -> None:
    """The first tile, so that the output is finite."""
    q, k, v = SIZES.qkv()

    got = attention(q, k, v, factor=threshold * 700)

    assert bool(got.out.isfinite().all())
    assert got.skipped < got.tiles


def test_a_threshold_means_the_same_at_any_length() -> None:
    """The factor grows with the keys, so a tile is judged alike: repeated keys repeat the sparsity."""
    skip = SkipSoftmax(threshold=0.3)
    q, k, v = SHORT.qkv()
    twice = [torch.cat([x, x], dim=1) for x in (k, v)]

    short = attention(q * 4, k, v, factor=skip.scale_factor(320), tile=16)
    long = attention(q * 4, *twice, factor=skip.scale_factor(640), tile=16)
    same_factor = attention(q * 4, *twice, factor=skip.scale_factor(320), tile=16)

    assert long.skipped >= 2 * short.skipped > 0
    assert same_factor.skipped < long.skipped
    assert skip.scale_factor(640) == 0.3 * 640


@pytest.mark.parametrize(
    ("skip", "keys", "factor"),
    [
        (SkipSoftmax(), 1000, None),
        (SkipSoftmax(threshold=0.0), 1000, None),
        (SkipSoftmax(threshold=0.01), 1000, 10.0),
        (SkipSoftmax(threshold=0.01), 2000, 20.0),
        (SkipSoftmax(target_sparsity=0.5), 1000, None),
        (SkipSoftmax(target_sparsity=0.5, curve=Curve(100.0, 0.0)), 1000, 100.0),
        (SkipSoftmax(target_sparsity=0.5, curve=Curve(2.0, 1.0)), 1000, 2 * math.exp(0.5)),
        (SkipSoftmax(target_sparsity=0.5, curve=Curve(2.0, 1.0)), 2000, 2 * math.exp(0.5)),
        (SkipSoftmax(target_sparsity=0.65, curve=Curve(2142.7, 4.28)), 75_600, 2142.7 * math.exp(4.28 * 0.65)),
        (SkipSoftmax(target_sparsity=0.5, curve=Curve(0.0, 1.0)), 1000, None),
        (SkipSoftmax(threshold=0.01, target_sparsity=0.5, curve=Curve(2.0, 1.0)), 1000, 10.0),
    ],
)
def test_factors(skip: SkipSoftmax, keys: int, factor: float | None) -> None:
    """A threshold goes with the length, a curve does not; where both are there the threshold counts."""
    assert skip.scale_factor(keys) == (None if factor is None else pytest.approx(factor))
    assert skip.enabled == (factor is not None)


@pytest.mark.parametrize(
    ("until", "t", "is_open"),
    [
        (0.6, 0.9, False),
        (0.6, 0.6, True),
        (0.6, 0.3, True),
        (0.6, None, False),
        (0.0, 0.9, True),
        (0.0, None, True),
        (1.0, 1.0, True),
        (1.0, None, False),
    ],
)
def test_the_gate(until: float, t: float | None, is_open: bool) -> None:
    """Open from the timestep down; 0 is no gate, 1 is one that wants to know the timestep."""
    skip = SkipSoftmax(threshold=0.1, disabled_until_timestep=until)

    assert skip.open_at(t) is is_open
    assert skip.gated is (until > 0)


def test_without_anything_to_skip_there_is_no_gate() -> None:
    """So that nobody is asked for a timestep."""
    assert not SkipSoftmax(disabled_until_timestep=0.5).gated


@pytest.mark.parametrize(
    ("until", "steps"), [(1.0, 0), (0.99, 6), (0.97, 14), (0.95, 19), (0.9, 28), (0.86, 33), (0.0, 0)]
)
def test_dense_steps_of_a_shifted_schedule(until: float, steps: int) -> None:
    """Rectified flow shifted by 12, 50 points and so 49 steps: the counts that are published for MiniMax-H3."""
    line = [1 - i / 49 for i in range(49)]
    schedule = [12 * u / (1 + 11 * u) for u in line]

    assert dense_steps(schedule, until) == steps
