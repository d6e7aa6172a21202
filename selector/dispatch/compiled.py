"""Plans for compiled code: chosen once while it is traced, from plain values, and guarded by what they depend on.

Nothing of a decision can be traced, and nothing of it needs to be: what it reads of a call are a few plain values,
which the compiler guards. Lengths may stay symbolic: the rules tell them apart by a few bounds, so that compiled code
asks only on which side of each bound a length lies, and whether the two are equal.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selector.dispatch.plans import Plan, plan_of
from selector.dispatch.signatures import Alignment, MaskSays, Signature
from selector.rules.conditions import tests
from selector.rules.vocabulary import Value

if TYPE_CHECKING:
    from torch import Tensor, device, dtype

    from backends.masks import Mask
    from selector.ruleset import RuleSet
    from selector.selecting import Selector

_LENGTHS = ("seq_len_q", "seq_len_kv")
_TRACED: Mapping[str, Value] = {"compile": True}
"""What is known of a call that is being traced, whatever the caller says."""
_BOUND = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Marks:
    """How rules tell lengths apart: by bounds that a length exceeds or not, and by numbers that divide it or not."""

    bounds: tuple[int, ...]
    divisors: tuple[int, ...]

    def example(self, exceeds: int, divided: tuple[bool, ...], other: int | None = None) -> int:
        """Give a length that exceeds so many bounds and is divided like that, and is not `other`."""
        for length in self._candidates():
            fits = sum(length > bound for bound in self.bounds) == exceeds
            if fits and length != other and tuple(length % divisor == 0 for divisor in self.divisors) == divided:
                return length
        raise ValueError("no length lies there")

    def _candidates(self) -> Iterator[int]:
        """Give lengths behind each bound, two periods of the divisors of them."""
        period = 2 * math.lcm(*self.divisors) + 2
        for start in (0, *(bound + 1 for bound in self.bounds)):
            yield from range(start, start + period)


def marks_of(rules: RuleSet) -> Marks:
    """Find how the rules tell lengths apart."""
    bounds, divisors = {0, 1}, set[int]()
    for condition in rules.conditions():
        for test in tests(condition):
            if test.fact not in _LENGTHS:
                continue
            for text in map(str, test.mentions):
                numbers = [int(number) for number in _BOUND.findall(text)]
                if test.op == "multiple_of":
                    divisors.update(numbers)
                else:
                    bounds.update(itertools.chain(numbers, (number - 1 for number in numbers)))
    return Marks(tuple(sorted(bound for bound in bounds if bound >= 0)), tuple(sorted(divisors)))


class Plans:
    """Plans by name, each an attribute, so that compiled code guards its own and no other."""


class Chooser:
    """Gives compiled code its plan; layers that are alike share one, and so the code.

    `chosen` are the plans by what the layer says: its role and facts.
    """

    def __init__(self, selector: Selector, options: Mapping[str, object] | None = None) -> None:
        """Hold what all plans share."""
        self.selector = selector
        self.options = options
        self.chosen: dict[tuple[str, tuple[tuple[str, Value], ...]], dict[int, Plan]] = {}
        marks = marks_of(selector.rules)
        self.bounds, self.divisors = marks.bounds, marks.divisors
        self.plans = Plans()

    def plan(
        self,
        q: Tensor,
        k: Tensor,
        mask: Mask | None,
        *,
        causal: bool | Alignment | None,
        role: str,
        layer: tuple[tuple[str, Value], ...],
        lse: bool = False,
    ) -> Plan:
        """Give the plan of a call that is being traced."""
        queries, keys = q.shape[1], k.shape[1]
        bias = getattr(mask, "bias", None)
        name = self.constant(
            self.selector.epoch,
            role,
            q.dtype,
            q.device,
            _fixed(q.shape[2]),
            _fixed(q.shape[3]),
            _fixed(k.shape[2]),
            _holds(queries == keys),
            *_place(queries, self.bounds, self.divisors),
            *_place(keys, self.bounds, self.divisors),
            "none" if mask is None else mask.kind,
            False if mask is None else _holds(mask.per_head),
            bias is None or bias.dtype == q.dtype,
            causal,
            layer,
            lse,
        )
        plan: Plan = getattr(self.plans, name)
        return plan

    def constant(  # noqa: PLR0913, PLR0917 - plain values alone can be guarded
        self,
        epoch: int,
        role: str,
        of: dtype,
        where: device,
        heads: int,
        head_dim: int,
        kv_heads: int,
        equal: bool,  # noqa: FBT001
        exceeds_q: int,
        divided_q: tuple[bool, ...],
        exceeds_k: int,
        divided_k: tuple[bool, ...],
        kind: str,
        per_head: bool,  # noqa: FBT001
        matches: bool,  # noqa: FBT001
        causal: bool | Alignment | None,  # noqa: FBT001
        layer: tuple[tuple[str, Value], ...],
        lse: bool,  # noqa: FBT001
    ) -> str:
        """Choose while code is traced, and name the plan; a constant until one of the arguments is another one."""
        del epoch  # it is an argument so that newer rules compile the code anew
        said = (role, layer)
        layer = tuple(sorted({**dict(layer), **_TRACED}.items()))
        marks = marks_of(self.selector.rules)
        queries = marks.example(exceeds_q, divided_q)
        keys = queries if equal else marks.example(exceeds_k, divided_k, other=queries)
        says = MaskSays(kind, per_head, matches)
        signature = Signature(role, of, where, (heads, head_dim), kv_heads, (queries, keys), says, causal, layer, lse)
        plan = plan_of(self.selector, signature, self.options, _TRACED)
        self.chosen.setdefault(said, {})[id(plan)] = plan
        name = f"plan_{id(plan)}"
        setattr(self.plans, name, plan)
        return name

    constant._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001 - as `torch._dynamo.assume_constant_result` does, without importing torch


def _fixed(size: int) -> int:
    """Give a size as a plain number: what is compiled then holds for it alone."""
    return len(range(size))


def _holds(said: bool) -> bool:  # noqa: FBT001
    """Give an answer as a plain one: what is compiled then holds where it is the same."""
    answer = False
    if said:  # a branch is what the compiler guards
        answer = True
    return answer


def _place(length: int, bounds: tuple[int, ...], divisors: tuple[int, ...]) -> tuple[int, tuple[bool, ...]]:
    """Say which bounds a length exceeds and which numbers divide it; each question is one that a compiler can guard."""
    exceeds = 0
    for bound in bounds:
        if length > bound:
            exceeds += 1
    return exceeds, tuple([_holds(length % divisor == 0) for divisor in divisors])


def chooser_of(selector: Selector) -> Chooser:
    """Give the chooser of a selector, made on first use."""
    import torch  # on first use alone

    if torch.compiler.is_compiling() or selector.chooser is None:
        selector.prepare(Chooser)  # before it is looked at: traced code would remember that it was not there
    found = selector.chooser
    if not isinstance(found, Chooser):
        raise TypeError(f"wanted a chooser, got {found!r}")
    return found
