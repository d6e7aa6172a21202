from __future__ import annotations

import pytest

from selector.probe.gpus import Gpu, may_be_renumbered, visible_gpus

GIB = 1024**3
B200 = Gpu("NVIDIA B200", "sm_100", 180 * GIB, "GPU-aaaa1111")
RTX = Gpu("NVIDIA RTX PRO 6000", "sm_120", 96 * GIB, "GPU-aaaa2222")
H100 = Gpu("NVIDIA H100", "sm_90", 80 * GIB, "GPU-bbbb3333", ("MIG-c1", "MIG-c2"))
ALL = (B200, RTX, H100)


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        pytest.param(None, ALL, id="not set: all of them"),
        pytest.param("", (), id="empty: none"),
        pytest.param("-1", (), id="minus one: none"),
        pytest.param("NoDevFiles", (), id="a word that names no GPU: none"),
        pytest.param("1", (RTX,), id="an index"),
        pytest.param("2,0", (H100, B200), id="in the order named"),
        pytest.param(" 2 , 0 ", (H100, B200), id="blanks"),
        pytest.param("0,-1,1", (B200,), id="what stands after an invalid entry is hidden"),
        pytest.param("0,3,1", (B200,), id="an index that is not there"),
        pytest.param("99999999999999999999", (), id="a number out of every range"),
        pytest.param("1gpu", (RTX,), id="digits count up to the first other sign, as in CUDA"),
        pytest.param("²", (), id="a digit of another script is none"),
        pytest.param("0,0", (), id="the same GPU twice hides all"),
        pytest.param("0,GPU-aaaa1111", (), id="twice, spelt in two ways"),
        pytest.param("GPU-aaaa2222,GPU-bbbb3333", (RTX, H100), id="UUIDs"),
        pytest.param("GPU-bbbb", (H100,), id="the start of a UUID"),
        pytest.param("GPU-aaaa", (), id="a start that two GPUs share"),
        pytest.param("GPU-ffff", (), id="a UUID that is not there"),
        pytest.param("MIG-c2", (H100,), id="a MIG instance is its parent"),
        pytest.param("MIG-c1,MIG-c2", (H100, H100), id="two instances of one parent are two devices"),
        pytest.param("MIG-c1,MIG-c1", (), id="the same instance twice"),
        pytest.param("MIG-GPU-aaaa2222/1/0", (RTX,), id="the older name of an instance"),
        pytest.param("MIG-dd", (), id="an instance that is not there"),
    ],
)
def test_visible_gpus_follow_cuda(chosen: str | None, seen: tuple[Gpu, ...]) -> None:
    """The variable keeps and orders GPUs as CUDA reads it."""
    visible = visible_gpus(ALL, chosen)

    assert tuple(visible) == seen


@pytest.mark.parametrize(("gpus", "seen"), [((B200, B200), 1), ((B200, RTX), 0), ((), 0)])
def test_an_instance_of_unknown_parent_is_placed_only_where_all_gpus_are_alike(
    gpus: tuple[Gpu, ...], seen: int
) -> None:
    """Without a list of instances, any GPU describes the parent when they are all the same, and none otherwise."""
    assert len(visible_gpus(gpus, "MIG-5f")) == seen


def test_facts_leave_out_what_the_driver_could_not_say() -> None:
    """An arch or a size that is not known is not an entry, and so is not taken for `none`."""
    assert Gpu("NVIDIA GB10", "sm_121", None, "GPU-1").as_facts(3) == {
        "index": 3,
        "name": "NVIDIA GB10",
        "arch": "sm_121",
    }
    assert Gpu("odd", None, 5, "GPU-1").as_facts(0) == {"index": 0, "name": "odd", "memory": 5}


def test_only_different_gpus_in_an_order_nobody_asked_for_may_be_renumbered() -> None:
    """CUDA's default order, fastest first, can differ from the driver's only where the GPUs differ."""
    assert may_be_renumbered((B200, RTX), {})
    assert may_be_renumbered((B200, RTX), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    assert not may_be_renumbered((B200, RTX), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert not may_be_renumbered((B200, B200), {})
