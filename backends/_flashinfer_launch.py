"""How a kernel of FlashInfer is started: one signature for all of them, and one operator that torch can trace past."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakValueDictionary

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import Bound

TRIAL_LENGTH = 64
TRIAL_TOLERANCE = 0.1
READ_BYTES = 16
"""What a kernel reads at a time."""
SCALE_LEAST = 2.0**-10
"""The least scale that a kernel is given.

Some kernels hide a key with a score of -50,000 before scaling, and not with -inf: with a scale far smaller than this it
would be seen.
"""


class Job(NamedTuple):
    """What a kernel has to know of its tokens: sequences laid end to end, none empty, and how to score them."""

    lengths_q: tuple[int, ...]
    lengths_k: tuple[int, ...]
    causal: bool
    """Aligned bottom right; then no sequence has more queries than keys."""
    scale: float
    """`SCALE_LEAST` or more."""


class Launch(Protocol):
    """Starts a kernel on tokens."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> Tensor:
        """The output `[tokens, heads, head_dim]`, new and of the query's dtype.

        The arguments are `[tokens, heads or kv_heads, head_dim]` of any strides. `bits`, for one sequence that is not
        causal, is a mask of every query and key, packed as in `_flashinfer_bits`.
        """
        ...

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> tuple[Tensor, Tensor]:
        """The same, and the log-sum-exp to base e, float32 `[tokens, heads]`; raises `CallRefused` without one."""
        ...


_LAUNCHES: WeakValueDictionary[int, Launch] = WeakValueDictionary()
_SCHEMA = (
    "(int launch, Tensor q, Tensor k, Tensor v, Tensor? bits, SymInt[] lengths_q, SymInt[] lengths_k, bool causal, "
    "float scale) -> "
)


@torch.library.custom_op("attention_selector::flashinfer", mutates_args=(), schema=f"{_SCHEMA}Tensor")
def _operator(  # noqa: PLR0913, PLR0917 - an operator takes no structures
    launch: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bits: Tensor | None,
    lengths_q: list[int],
    lengths_k: list[int],
    causal: bool,  # noqa: FBT001
    scale: float,
) -> Tensor:
    return _LAUNCHES[launch](q, k, v, bits, Job(tuple(lengths_q), tuple(lengths_k), causal, scale)).contiguous()


@_operator.register_fake
def _(launch: int, q: Tensor, *_: object) -> Tensor:  # noqa: ARG001 - the operator's signature
    return q.new_empty(q.shape)


@torch.library.custom_op("attention_selector::flashinfer_lse", mutates_args=(), schema=f"{_SCHEMA}(Tensor, Tensor)")
def _operator_lse(  # noqa: PLR0913, PLR0917 - as above
    launch: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bits: Tensor | None,
    lengths_q: list[int],
    lengths_k: list[int],
    causal: bool,  # noqa: FBT001
    scale: float,
) -> tuple[Tensor, Tensor]:
    job = Job(tuple(lengths_q), tuple(lengths_k), causal, scale)
    out, lse = _LAUNCHES[launch].with_lse(q, k, v, bits, job)
    return out.contiguous(), lse.contiguous()


@_operator_lse.register_fake
def _(launch: int, q: Tensor, *_: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001 - as above
    return q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A launch that compiled code calls as one operator, without looking into it; eager code calls it directly.

    Equal launches are made one, so that code which is compiled for one layer serves all that are like it.
    """

    launch: Launch
    handle: int = field(init=False)

    def __post_init__(self) -> None:
        launch = next((known for known in _LAUNCHES.values() if known == self.launch), self.launch)
        object.__setattr__(self, "launch", launch)
        object.__setattr__(self, "handle", id(launch))
        _LAUNCHES[self.handle] = launch

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> Tensor:
        """See `Launch.__call__`."""
        if torch.compiler.is_compiling():
            lengths_q, lengths_k = list(job.lengths_q), list(job.lengths_k)
            out: Tensor = _operator(self.handle, q, k, v, bits, lengths_q, lengths_k, job.causal, job.scale)
            return out
        return self.launch(q, k, v, bits, job)

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> tuple[Tensor, Tensor]:
        """See `Launch.with_lse`."""
        if torch.compiler.is_compiling():
            lengths_q, lengths_k = list(job.lengths_q), list(job.lengths_k)
            both: tuple[Tensor, Tensor] = _operator_lse(
                self.handle, q, k, v, bits, lengths_q, lengths_k, job.causal, job.scale
            )
            return both
        return self.launch.with_lse(q, k, v, bits, job)


def readable(tensor: Tensor) -> Tensor:
    """The tensor, copied where a kernel that reads 16 bytes at a time could not read it, or reads one place twice."""
    *strides, last = tensor.stride()
    fits = last == 1 and all(stride > 0 and stride * tensor.element_size() % READ_BYTES == 0 for stride in strides)
    fits = fits and tensor.data_ptr() % READ_BYTES == 0
    return tensor if fits else tensor.clone(memory_format=torch.contiguous_format)


def folded(scale: float | None, q: Tensor) -> tuple[float, Tensor]:
    """A scale that kernels can take, with what it lacks of the wanted one put into the query.

    Kernels hide scores before they scale them, and a scale below `SCALE_LEAST`, 0 or negative breaks that.
    """
    wanted = q.shape[-1] ** -0.5 if scale is None else scale
    if abs(wanted) < SCALE_LEAST:
        return 1.0, q * wanted
    return abs(wanted), q if wanted > 0 else -q


def try_launch(launch: Launch, bound: Bound) -> None:
    """Runs the kernel once on the device: values of one give an output of one, whatever the weights.

    Compiles what the kernel has to compile. Raises whatever it raises, and `RuntimeError` for another output.
    """
    geometry = bound.geometry
    shape = (TRIAL_LENGTH, geometry.num_heads, geometry.head_dim)
    q = torch.zeros(shape, dtype=bound.dtype, device=bound.device)
    k = torch.zeros_like(q[:, : geometry.num_kv_heads])
    job = Job((TRIAL_LENGTH,), (TRIAL_LENGTH,), causal=False, scale=1.0)
    error = (launch(q, k, torch.ones_like(k), None, job).float() - 1).abs().max().item()
    if not error <= TRIAL_TOLERANCE:
        raise RuntimeError(f"wanted an average of ones to be 1, got one that is off by {error}")
