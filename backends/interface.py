"""What every kernel family offers: a backend that binds once and a kernel that is called many times.

All tensors are `[batch, seq, heads, head_dim]`, in and out, and an output has the dtype and the shape of its query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends.masks import Mask

Causal = Literal["top_left", "bottom_right"]
"""Which corner of the scores the causal diagonal runs through.

`top_left`: query `i` sees keys `0..i`. `bottom_right`: the last query sees every key, so query `i` sees keys
`0..i + seq_len_kv - seq_len_q`. They agree when the two lengths do.
"""

Precision = Literal["exact", "int8", "fp8", "fp4"]
"""What a kernel rounds beyond the dtype of its inputs, by the coarsest number format that it puts any of them into.

`exact`: nothing. `int8`: queries and keys in whole numbers of eight bits. `fp8` and `fp4`: queries and keys, or values,
in floats of so many bits. A kernel, or else its backend, says so in an attribute `precision`; without it, `exact`.
"""


Repeated: TypeAlias = "Callable[[Tensor, Tensor, Tensor], Tensor]"
"""What runs calls of `q`, `k` and `v` that are like one which a kernel has taken, and checks nothing."""


class BindError(RuntimeError):
    """A kernel cannot be bound: the message gives the reason, `__cause__` the package's own error if there is one."""


class CallRefused(ValueError):  # noqa: N818 - a refusal is an answer, named as the documents name it
    """The arguments of a call, or of a mask, cannot be honoured; the message says what was wanted and what was got."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """What is known of a layer before its first call, and what every call is then held to.

    `dtype` is torch's name without the prefix (`bfloat16`). `device` is a torch device (`cuda:0`, `cpu`); without an
    index it stands for any device of that type. `provider` names one of several builds of a kernel, for the backends
    that have several.
    """

    head_dim: int
    num_heads: int
    num_kv_heads: int
    dtype: str
    device: str
    provider: str | None = None


class Kernel(Protocol):
    """Bound code for one geometry."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """Attention of `q` over `k` and `v`.

        `q` is `[batch, seq_q, num_heads, head_dim]`, the others `[batch, seq_kv, num_kv_heads, head_dim]`, of one dtype
        and device. Query head `h` reads key head `h // (num_heads // num_kv_heads)`. Without a `scale` it is
        `head_dim ** -0.5`. A query that may see no key yields zeros. No argument is mutated. Raises `CallRefused` for
        what this kernel cannot honour.
        """
        ...


class LseKernel(Kernel, Protocol):
    """A kernel that gives its log-sum-exp too, with which outputs over several parts of the keys can be merged."""

    def with_lse(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The output, and the logarithm to base e of the sum of exp(scaled scores) over the keys that a query sees.

        That is float32 `[batch, num_heads, seq_q]`, and -inf for a query that sees no key.
        """
        ...


class RepeatedKernel(Kernel, Protocol):
    """A kernel with a shorter way for calls that are alike, as those of all layers and steps of a model are."""

    def repeated(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: Causal | None, scale: float | None
    ) -> Repeated | None:
        """What runs every call like this one, which the kernel has just taken without a mask; None for no shorter way.

        Whoever calls it has seen that its tensors are of the types, shapes, dtypes and devices of these and require
        gradients as they do, with the same autocast; what depends on these and on the other arguments alone is checked
        no more. Strides, addresses, values and the grad mode may be others. No tensor may be kept.
        """
        ...


class Backend(Protocol):
    """One family of kernels under the name that rules and configurations use."""

    @property
    def name(self) -> str:
        """The name, equal to that of the entry point which registers the backend."""
        ...

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """A kernel for `geometry` with the options in `spec`; whatever can fail before the first call fails here.

        Raises `BindError` for a missing package or device, a geometry outside the kernel's limits, an unknown option.
        """
        ...
