"""What every backend does with every kind of mask, found by running it here.

``python -m benchmarks.outcomes [--markdown FILE]``. A cell says what ran: nothing (the call as it is), `L` (the same
result by another call), `S` (`TORCH_SDPA` took it) or `R` (refused), and behind a colon, where the result was off by
more than half precision explains, the error. Backends that cannot run on this machine are listed with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.environment import heading
from selector import SelectionRefusedError, Selector

_LENGTHS = {"": (160, 160), "Sq≠Sk ": (96, 160)}
_CAUSAL: tuple[Literal["top_left", "bottom_right"] | None, ...] = (None, "top_left", "bottom_right")
_TOLERANCE = {"SAGE": 0.1}
_EXACT = 0.05


class Cell(NamedTuple):
    """One backend with one call."""

    backend: str
    call: str
    told: str
    reason: str


def main() -> int:
    """Run every cell and print the table; the status is 1 when a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    cells = list(_cells())
    text = heading("Every backend with every kind of mask") + "\n" + _table(cells)
    print(text)
    if options.markdown:
        Path(options.markdown).write_text(text, encoding="utf-8")
    return 1 if any(":" in cell.told for cell in cells) else 0


def _cells() -> Iterator[Cell]:
    here = Selector()
    for backend in here.rules.backends:
        named = Selector(backend=backend, policy="fallback").decide("self", head_dim=128)
        if named.backend != backend:
            reason = named.error.message if named.error else "; ".join(named.warnings)
            yield Cell(backend, "any", "cannot run here", reason)
            continue
        yield from _calls(Selector(backend=backend), backend)


def _calls(one: Selector, backend: str) -> Iterator[Cell]:
    for kind in one.rules.vocabulary.facts["mask"].values:
        for causal in _CAUSAL:
            for words, lengths in _LENGTHS.items():
                told, reason = _run(one, backend, Call(kind, lengths, causal))
                yield Cell(backend, f"{kind}, {words}{causal or 'not causal'}", told, reason)


class Call(NamedTuple):
    """One call to be made."""

    kind: str
    lengths: tuple[int, int]
    causal: Literal["top_left", "bottom_right"] | None


def _run(one: Selector, backend: str, call: Call) -> tuple[str, str]:
    import torch

    from backends import samples
    from backends.interface import CallRefused
    from backends.reference import attention as definition
    from selector.dispatch import plan_for

    device = "cuda" if torch.cuda.is_available() else "cpu"
    q, k, v = (tensor.to(device) for tensor in samples.tensors(call.lengths, (8, 8), 128))
    mask = samples.mask(call.kind, call.lengths, 8, device)
    try:
        plan = plan_for(q, k, v, mask=mask, causal=call.causal, selector=one)
        got = plan.kernel(q, k, v, mask=mask, causal=plan.causal)
    except (SelectionRefusedError, CallRefused) as refusal:
        return "R", str(refusal)
    decision = plan.decision
    error = float((got.double() - definition(q, k, v, mask=mask, causal=plan.causal)).abs().max())
    told = "S" if decision.backend != backend else "L" if decision.transform else ""
    most = next((most for name, most in _TOLERANCE.items() if str(decision.backend).startswith(name)), _EXACT)
    wrong = f": {error:.1e}" if error > most else ""
    return told + wrong, decision.transform or "; ".join(decision.warnings)


def _table(cells: list[Cell]) -> str:
    calls = list(dict.fromkeys(cell.call for cell in cells if cell.call != "any"))
    backends = list(dict.fromkeys(cell.backend for cell in cells))
    ran = [name for name in backends if any(cell.backend == name and cell.call != "any" for cell in cells)]
    told = {(cell.backend, cell.call): cell.told for cell in cells}
    lines = ["| call | " + " | ".join(f"`{name}`" for name in ran) + " |", "|---" * (len(ran) + 1) + "|"]
    lines += [f"| {call} | " + " | ".join(told[name, call] for name in ran) + " |" for call in calls]
    absent = [f"- `{cell.backend}`: {cell.reason}" for cell in cells if cell.call == "any"]
    return "\n".join([*lines, "", "Not run here:", "", *absent, ""])


if __name__ == "__main__":
    sys.exit(main())
