"""`attention-selector explain`: what would run for one layer, and why not the others."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from selector.command.inputs import read_change, request, selector
from selector.command.usage import UsageError
from selector.decision import Decision
from selector.origins import flag_origins
from selector.rules.problems import FactsError
from selector.selecting import Selector

if TYPE_CHECKING:
    from selector.rendering.whatif import WhatIf
    from selector.rendering.whynot import WhyNot


def run(options: argparse.Namespace) -> int:
    """Write the explanation; the status is 3 when the selection was refused, 2 when the input is wrong."""
    if (options.why_not is not None or options.what_if) and options.format == "mermaid":
        raise UsageError("`--why-not` and `--what-if` go with the formats tree and json: a chart has no place for them")
    chosen = selector(options)
    asked = request(options)
    decision = _from_flags(chosen.decide(**asked), asked)  # type: ignore[arg-type]
    if decision.error is not None and decision.error.code != "refused":
        raise FactsError(decision.error.problems)
    changes = [read_change(text) for text in options.what_if]
    sys.stdout.write(_FORMATS[options.format](decision, _Asked(chosen, asked, options.why_not, options.any, changes)))
    return 0 if decision.error is None else 3


def _from_flags(decision: Decision, asked: Mapping[str, object]) -> Decision:
    """Give the decision with flags as what the request came from."""
    inputs = decision.inputs
    if inputs is None:
        return decision
    return replace(decision, inputs=replace(inputs, origins={**inputs.origins, **flag_origins(asked)}))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked beside the decision itself."""

    chosen: Selector
    request: Mapping[str, object]
    backend: str | None
    any_fact: bool
    changes: Sequence[tuple[str, object]]

    def why_not(self) -> WhyNot | None:
        """Why a backend does not run, where that is asked."""
        if self.backend is None:
            return None
        from selector.rendering.whynot import why_not  # only what is asked for is loaded

        return why_not(self.chosen, self.request, self.backend, any_fact=self.any_fact)

    def what_if(self, decision: Decision) -> WhatIf | None:
        """What other facts would give, where that is asked."""
        if not self.changes:
            return None
        from selector.rendering.whatif import what_if

        return what_if(decision, self.changes)


def _tree(decision: Decision, asked: _Asked) -> str:
    from selector.rendering import terminal, tree

    width = terminal.terminal_width(sys.stdout, os.environ)
    colour = terminal.use_colour(sys.stdout, os.environ)
    plain = terminal.use_ascii(sys.stdout)
    text = tree.render_tree(decision, decision.explain(), width=width, colour=colour, ascii=plain)
    why, other = asked.why_not(), asked.what_if(decision)
    if why is not None:
        from selector.rendering import whynot

        text += "\n" + whynot.render_why_not(why, width=width, colour=colour, ascii=plain)
    if other is not None:
        from selector.rendering import whatif

        text += "\n" + whatif.render_what_if(other, width=width, colour=colour, ascii=plain)
    return text + "".join(f"{line}\n" for line in _other_devices(decision, asked.chosen, asked.request))


def _json(decision: Decision, asked: _Asked) -> str:
    from selector.analysis.remaining import remaining

    trace = decision.explain()
    told = decision.to_dict() | {"layers": [layer.to_dict() for layer in trace.layers], "trace": trace.to_dict()}
    possible, why, other = remaining(decision), asked.why_not(), asked.what_if(decision)
    told["remaining"] = None if possible is None else possible.to_dict()
    if why is not None:
        told["why_not"] = why.to_dict()
    if other is not None:
        told["what_if"] = other.to_dict()
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def _mermaid(decision: Decision, asked: _Asked) -> str:  # noqa: ARG001 - a chart shows the decision alone
    from selector.rendering import mermaid

    return mermaid.render_mermaid(decision, decision.explain())


def _other_devices(decision: Decision, chosen: Selector, asked: Mapping[str, object]) -> Iterator[str]:
    """Say which other GPUs of this machine would get another backend."""
    for device, machine in chosen.other_machines():
        other = chosen.on(machine).decide(**asked)  # type: ignore[arg-type]
        if other.backend != decision.backend:
            told = other.backend or "no backend"
            yield f"device {device} ({machine.get('arch')}) would get {told}: --device {device} explains"


_FORMATS = {"tree": _tree, "json": _json, "mermaid": _mermaid}
