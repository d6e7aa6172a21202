from __future__ import annotations

import pytest

from selector.probe.system import UNKNOWN
from selector.probe.versions import build_of, cudnn_from_metadata, cudnn_number
from tests.selector.probe.machines import Machine


@pytest.mark.parametrize(
    ("version", "build"),
    [
        ("2.13.0+cpu", "cpu"),
        ("2.13.0+cpu.cxx11.abi", "cpu"),
        ("2.13.0+cu130", "cuda"),
        ("2.11.0+rocm6.4", "rocm"),
        ("2.11.0+xpu", "xpu"),
        ("2.13.0", None),
        ("2.9.0a0+50eac811a6.nv25.9", None),
        ("2.9.0a0+cuda", None),
        (UNKNOWN, None),
        (None, None),
    ],
)
def test_the_local_tag_tells_the_build(version: str | None, build: str | None) -> None:
    """A wheel from PyPI and a build of one's own have no tag that tells."""
    assert build_of(version) == build


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("9.10.2.21", 91002),
        ("9.5.0.50", 90500),
        ("9.19", 91900),
        ("10.0.1.5", 100001),
        ("8.9.7.29", 8907),
        ("8.9", 8900),
        ("9", None),
        ("9.1000", None),
        ("9.10.200", None),
        ("nine", None),
        (UNKNOWN, None),
        ("", None),
    ],
)
def test_a_version_of_cudnn_is_the_number_that_cudnn_reports(version: str, number: int | None) -> None:
    """From 9 on the major version counts ten thousand; before, one thousand."""
    assert cudnn_number(version) == number


@pytest.mark.parametrize(
    ("installed", "facts"),
    [
        pytest.param({}, {}, id="nothing there to tell"),
        pytest.param({"torch": "2.13.0", "nvidia-cudnn-cu12": "9.10.2.21"}, {"cudnn": 91002}, id="the only one"),
        pytest.param(
            {"torch": "2.13.0", "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.19.0.56"},
            {"cudnn": 91900},
            id="the newest CUDA's first",
        ),
        pytest.param(
            {"torch": "2.13.0+cu128", "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.19.0.56"},
            {"cudnn": 91002},
            id="that of torch's own CUDA",
        ),
        pytest.param({"torch": "2.13.0+cu130", "nvidia-cudnn-cu12": "9.10.2.21"}, {}, id="only another CUDA's"),
        pytest.param(
            {"nvidia-cudnn-cu13": UNKNOWN, "nvidia-cudnn-cu11": "8.9.7.29"},
            {"cudnn": 8907},
            id="the first readable one",
        ),
    ],
)
def test_cudnn_is_read_from_the_distribution_that_torch_would_load(
    installed: dict[str, str], facts: dict[str, object]
) -> None:
    """No distribution that fits means that cuDNN is not known, which is not the same as none."""
    assert cudnn_from_metadata(Machine(installed=installed).system()) == facts
