"""`attention-selector explain`: what would run for one layer, and why not the others."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from selector.command.inputs import request, selector
from selector.command.options import UsageError
from selector.decision import Decision
from selector.origins import flag_origins
from selector.rules.problems import FactsError
from selector.selecting import Selector


def run(options: argparse.Namespace) -> int:
    """Write the explanation; the status is 3 when the selection was refused, 2 when the input is wrong."""
    if options.why_not is not None and options.format == "mermaid":
        raise UsageError("`--why-not` goes with the formats tree and json: a chart has no place for it")
    chosen = selector(options)
    asked = request(options)
    decision = _from_flags(chosen.decide(**asked), asked)  # type: ignore[arg-type]
    if decision.error is not None and decision.error.code != "refused":
        raise FactsError(decision.error.problems)
    sys.stdout.write(_FORMATS[options.format](decision, chosen, asked, options.why_not))
    return 0 if decision.error is None else 3


def _from_flags(decision: Decision, asked: Mapping[str, object]) -> Decision:
    """Give the decision with flags as what the request came from."""
    inputs = decision.inputs
    if inputs is None:
        return decision
    return replace(decision, inputs=replace(inputs, origins={**inputs.origins, **flag_origins(asked)}))


def _tree(decision: Decision, chosen: Selector, asked: Mapping[str, object], backend: str | None) -> str:
    from selector.rendering import terminal, tree, whynot  # only what is asked for is loaded

    width = terminal.terminal_width(sys.stdout, os.environ)
    colour = terminal.use_colour(sys.stdout, os.environ)
    plain = terminal.use_ascii(sys.stdout)
    text = tree.render_tree(decision, decision.explain(), width=width, colour=colour, ascii=plain)
    if backend is not None:
        answer = whynot.why_not(chosen, asked, backend)
        text += "\n" + whynot.render_why_not(answer, width=width, colour=colour, ascii=plain)
    return text + "".join(f"{line}\n" for line in _other_devices(decision, chosen, asked))


def _json(decision: Decision, chosen: Selector, asked: Mapping[str, object], backend: str | None) -> str:
    from selector.rendering import whynot

    trace = decision.explain()
    told = decision.to_dict() | {"layers": [layer.to_dict() for layer in trace.layers], "trace": trace.to_dict()}
    if backend is not None:
        told["why_not"] = whynot.why_not(chosen, asked, backend).to_dict()
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


def _mermaid(decision: Decision, chosen: Selector, asked: Mapping[str, object], backend: str | None) -> str:  # noqa: ARG001
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
