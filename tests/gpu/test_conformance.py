"""The conformance kit on a real GPU: every backend and build that the rules let run on it."""

from __future__ import annotations

import pytest

from selector.dispatch.selftest import Asked, Unusable, on_device, usable
from selector.ruleset import shipped
from tests.gpu.conftest import cuda_reason

REASON = cuda_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

DEVICE = "cuda:0"
HEAD_DIMS = (64, 128)
"""The check of a head_dim that kernels fill up brings its own; more of them would be compiled for minutes."""
BUILDS = [(name, build) for name, backend in shipped().backends.items() for build in backend.providers or (None,)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("backend", "provider"), BUILDS, ids=[build or name for name, build in BUILDS])
def test_conforms(backend: str, provider: str | None, dtype: str) -> None:
    """Each check passes or is refused with a reason; what the rules do not let run skips with theirs."""
    asked = Asked(backend, provider, head_dims=HEAD_DIMS, dtypes=[dtype])

    (found,) = usable(on_device(shipped(), DEVICE), asked, DEVICE)

    if isinstance(found, Unusable):
        pytest.skip(found.reason)
    reasons = [result.got for result in found.results if result.outcome == "cannot bind"]
    if len(reasons) == len(found.results):
        pytest.skip(reasons[0])
    assert [str(result) for result in found.results if result.outcome == "failed"] == []
