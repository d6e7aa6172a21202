"""Calls like one made before run at once, and whatever differs in what a decision or a check reads is asked anew."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from backends import masks
from backends.interface import CallRefused
from selector import Attention, SelectionRefusedError, Selector, attention, use_backends
from selector.dispatch import ready
from selector.dispatch.ready import MOST, alike
from tests.selector.conftest import CPU
from tests.selector.rules.folders import file

Call = Callable[..., Any]


@pytest.fixture
def cpu() -> Selector:
    """Give a selector of a machine without a GPU."""
    return Selector(facts=CPU, environment={})


@pytest.fixture(params=["guards", "compared"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at tensors in both ways: as compiled code does, and as is done where torch does not offer that."""
    if request.param == "compared":
        monkeypatch.setattr(ready, "TensorGuards", None)


@pytest.fixture(params=["layer", "function"])
def call(request: pytest.FixtureRequest, cpu: Selector) -> Call:
    """Give a layer's call or the function."""
    if request.param == "layer":
        return Attention("self", selector=cpu)

    def function(q: Tensor, k: Tensor, v: Tensor, **given: Any) -> Any:  # noqa: ANN401
        return attention(q, k, v, selector=cpu, **given)

    return function


def tensors(queries: int = 6, keys: int = 6, batch: int = 2, **given: Any) -> list[Tensor]:  # noqa: ANN401
    """Give q, k and v with 4 heads of 16."""
    return [torch.randn(batch, length, 4, 16, **given) for length in (queries, keys, keys)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each call that asks for its plan."""
    from selector.dispatch import layer, plans

    asked: list[str] = []
    real = plans.plan_of

    def plan_of(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        asked.append("asked")
        return real(*given, **named)

    monkeypatch.setattr(plans, "plan_of", plan_of)
    monkeypatch.setattr(layer, "plan_of", plan_of)
    return asked


# --- what is alike ---


def test_a_call_like_one_before_does_not_ask_again(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its values, strides and place in memory; the result is that of the first way."""
    asked, (q, k, v) = counted(monkeypatch), tensors()
    wanted = call(q, k, v)

    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    apart = [torch.cat([x, x], dim=-1)[..., :16] for x in (q, k, v)]
    for one in ([q, k, v], strided, apart, [x.clone() for x in (q, k, v)]):
        torch.testing.assert_close(call(*one), wanted)

    assert len(asked) == 1


def test_each_of_several_kinds_of_call_is_ready(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a step with and without a prompt are."""
    asked = counted(monkeypatch)
    for _ in range(3):
        for queries, keys, causal in ((6, 6, None), (6, 9, None), (6, 6, True), (6, 9, "bottom_right")):
            q, k, v = tensors(queries, keys)
            fresh = Selector(facts=CPU, environment={})
            wanted = attention(q, k, v, causal=causal, selector=fresh)  # type: ignore[arg-type]
            asked.pop()
            torch.testing.assert_close(call(q, k, v, causal=causal), wanted)

    assert len(asked) == 4


DIFFERENT: Mapping[str, Callable[[], list[Tensor]]] = {
    "batch": lambda: tensors(batch=3),
    "queries": lambda: tensors(7),
    "keys": lambda: tensors(6, 7),
    "heads": lambda: [x.repeat(1, 1, 2, 1) for x in tensors()],
    "KV heads": lambda: [x if at == 0 else x[:, :, :2] for at, x in enumerate(tensors())],
    "head_dim": lambda: [x[..., :8] for x in tensors()],
    "dtype": lambda: tensors(dtype=torch.bfloat16),
    "device": lambda: tensors(device="meta"),
    "gradients": lambda: tensors(requires_grad=True),
    "type": lambda: [torch.nn.Parameter(x) for x in tensors()],
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_not_alike(what: str) -> None:
    """In each property that a plan or a check reads."""
    fits = alike(*tensors())

    assert fits(*tensors())
    assert not fits(*DIFFERENT[what]())


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("what", ["batch", "queries", "keys", "heads", "head_dim", "dtype", "device"])
def test_one_tensor_that_differs_is_enough(what: str, at: int) -> None:
    """Whichever it is."""
    mixed = [DIFFERENT[what]()[at] if place == at else x for place, x in enumerate(tensors())]

    assert alike(*tensors())(*mixed) is all(
        x.shape == (2, 6, 4, 16) and x.dtype == torch.float32 and x.device.type == "cpu" for x in mixed
    )


def test_other_modes_of_torch_are_not_alike() -> None:
    """Autocast is one; the grad mode is none, for every launch has its gradients or checks by itself."""
    plain, wanting = tensors(), tensors(requires_grad=True)
    fits, fits_wanting = alike(*plain), alike(*wanting)

    with torch.autocast("cpu"):
        assert not fits(*plain)
        assert alike(*plain)(*plain)
    with torch.no_grad():
        assert fits(*plain)
        assert fits_wanting(*wanting)


def test_tensors_that_are_one_are_alike(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-attention of one tensor with itself too."""
    asked, x = counted(monkeypatch), tensors()[0]

    for _ in range(3):
        call(x, x, x)

    assert len(asked) == 1


# --- what is refused, and what changes ---


def test_what_is_wrong_is_refused_in_the_same_words(cpu: Selector, call: Call) -> None:
    """Before and after a call that was taken."""
    q, k, v = tensors(6, 9)
    wrong: list[tuple[list[Tensor], dict[str, Any]]] = [
        ([q, k[:, :5], v], {}), ([q, k, v[..., :8]], {}), ([q, k, v.double()], {}), ([q, k.to("meta"), v], {}),
        ([q[:1], k, v], {}), ([q, k[:, :, :3], v[:, :, :3]], {}), ([q[0], k, v], {}), ([q, k, v], {"causal": True}),
        ([q, k, v], {"causal": "left"}), ([q, k, v], {"mask": torch.ones(2, 9)}),
    ]  # fmt: skip

    for given, named in wrong:
        with pytest.raises((ValueError, SelectionRefusedError)) as first:
            attention(*given, selector=Selector(facts=CPU, environment={}), **named)
        call(q, k, v)
        call(q, k, v)
        with pytest.raises(type(first.value)) as later:
            call(*given, **named)
        assert str(later.value) == str(first.value)


def test_mixed_types_are_refused_under_autocast_too(call: Call) -> None:
    """Where torch itself would take them."""
    q, k, v = tensors()
    with torch.autocast("cpu"):
        call(q, k, v)
        with pytest.raises(CallRefused, match="`k`: wanted float32"):
            call(q, k.bfloat16(), v)


def test_the_type_is_kept_under_autocast(call: Call) -> None:
    """Also where the same call was made ready without it, and the other way round."""
    q, k, v = tensors()
    wanted = call(q, k, v)

    for _ in range(2):
        with torch.autocast("cpu"):
            got = call(q, k, v)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, wanted, atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(call(q, k, v), wanted)


def test_gradients_flow_through_calls_that_are_alike(call: Call) -> None:
    """As through the first."""
    given = tensors(requires_grad=True)

    grads = [torch.autograd.grad(call(*given).square().sum(), given) for _ in range(3)]

    for got in grads[1:]:
        torch.testing.assert_close(got, grads[0])


def test_the_scale_is_that_of_the_call(cpu: Selector) -> None:
    """A scale of 0 or less as well, and one that is set on a layer later."""
    q, k, v = tensors()
    layer = Attention("self", selector=cpu)

    for scale in (None, 0.3, 0.0, -0.5, 0.3, None):
        wanted = attention(q, k, v, scale=scale, selector=Selector(facts=CPU, environment={}))
        layer.scale = scale
        for _ in range(2):
            torch.testing.assert_close(attention(q, k, v, scale=scale, selector=cpu), wanted)
            torch.testing.assert_close(layer(q, k, v), wanted)


def test_newer_rules_are_asked(tmp_path: Path) -> None:
    """By what was made ready with older ones."""
    file(tmp_path, "roles.yaml", "roles: {mine: cross}")
    selector = Selector(rules=tmp_path, facts=CPU, environment={})
    layer, (q, k, v) = Attention("mine", selector=selector), tensors()
    for _ in range(2):
        layer(q, k, v)
        attention(q, k, v, selector=selector)
    file(tmp_path, "e.yaml", "table: call\nedits: [{id: none, before: heads-do-not-divide, when: {mask: none}, "
         "refuse: 'not any more', because: x}]\n")  # fmt: skip

    assert selector.reload().outcome == "swapped"

    for call in (layer, lambda *given: attention(*given, selector=selector)):
        with pytest.raises(SelectionRefusedError, match="not any more"):
            call(q, k, v)


def test_use_backends_is_seen_by_calls_that_are_alike(cpu: Selector) -> None:
    """Each selector is asked for itself."""
    q, k, v = tensors()
    other = Selector(facts=CPU, backend="TORCH_SDPA", environment={})

    for selector in (cpu, other, cpu, other):
        with use_backends(selector):
            attention(q, k, v)

    assert [len(one.serving.plans) for one in (cpu, other)] == [1, 1]


def test_words_and_options_of_the_call_are_part_of_it(cpu: Selector) -> None:
    """A role, a fact of the layer, options, and what is no plain value."""
    q, k, v = tensors()
    for _ in range(2):
        attention(q, k, v, selector=cpu)
        attention(q, k, v, selector=cpu, role="cross")
        attention(q, k, v, selector=cpu, role="cross", mask_free=True)
        attention(q, k, v, selector=cpu, options={"layer": "a"})
        with pytest.raises(ValueError, match="no fact `head_dims`"):
            attention(q, k, v, selector=cpu, head_dims=5)
        with pytest.raises(ValueError, match="wanted plain values"):
            attention(q, k, v, selector=cpu, model=["x"])  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="calibratoin"):
            attention(q, k, v, selector=cpu, options={"calibratoin": object()})

    assert len(cpu.serving.plans) == 4


def test_the_report_counts_every_call(cpu: Selector) -> None:
    """Of each kind, however it was run; a copy starts anew."""
    layer, (q, k, v) = Attention("self", selector=cpu), tensors()

    for _ in range(3):
        layer(q, k, v)
        layer(q[:1], k[:1], v[:1])
        layer(q, k, v, mask=masks.all_keep())

    assert [ran.calls for ran in layer.report()] == [6, 3]
    assert copy.deepcopy(layer).report() == ()


def test_no_more_is_kept_than_is_of_use(cpu: Selector, call: Call) -> None:
    """Ever new shapes take no ever more memory."""
    for length in range(1, 3 * MOST):
        call(*tensors(length, length))

    assert all(len(readies) <= MOST for readies in cpu.serving.ready.values())
    assert not isinstance(call, Attention) or call._ready is None or len(call._ready.all) <= MOST


def test_a_kernel_without_a_shorter_way_checks_every_call(cpu: Selector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan alone is remembered."""
    from backends._sdpa import SdpaKernel

    monkeypatch.delattr(SdpaKernel, "repeated")
    asked, (q, k, v) = counted(monkeypatch), tensors()
    layer = Attention("self", selector=cpu)

    outs = [layer(q, k, v) for _ in range(3)]

    assert len(asked) == 1
    torch.testing.assert_close(outs[2], outs[0])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ({"causal": True}, {"causal": 1}, "`causal`: wanted true, false, `top_left` or `bottom_right`, got 1"),
        ({"mask_free": True}, {"mask_free": 1}, "`mask_free`: wanted true or false, got the number 1"),
    ],
)
def test_what_is_equal_to_what_was_right_is_refused_as_it_is_alone(
    right: dict[str, Any], wrong: dict[str, Any], message: str
) -> None:
    """1 is equal to true: what was met before changes nothing of it."""
    selector, q = Selector(facts=CPU, environment={}), torch.randn(1, 4, 2, 8)

    for _ in range(2):
        assert attention(q, q, q, selector=selector, **right).shape == q.shape
        with pytest.raises(ValueError, match=message):
            attention(q, q, q, selector=selector, **wrong)
