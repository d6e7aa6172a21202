"""`python -m selector.demo`: what each role of a model gets, here and on three GPUs, and attention computed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from selector import data
from selector.catalog import ModelRole, Shape
from selector.facts import Request
from selector.rendering import terminal, tree
from selector.selecting import Selector

_DEFAULT_MODELS = ["Wan-AI/Wan2.2-T2V-A14B-Diffusers", "HunyuanVideo15Pipeline", "Lightricks/LTX-2"]
_MOST_TOKENS = 640
_MOST_HEADS = 8
_HALF_PRECISION = 0.05


def main() -> int:
    """Print the demonstration; the status is 0 unless an error is larger than half precision explains."""
    parser = argparse.ArgumentParser(prog="python -m selector.demo", description=__doc__)
    parser.add_argument(
        "--model", action="append", metavar="NAME", help="a model of rules/models.yaml; may be repeated"
    )
    models = parser.parse_args().model or _DEFAULT_MODELS
    here = Selector()
    for model in models:
        if model not in here.rules.models:
            parser.error(f"no model {model!r}: see rules/models.yaml")
    for model in models:
        print(f"{model}\n")
        for name, selector in _machines(here):
            print(f"  {name}")
            for line in _decisions(selector, model):
                print(f"    {line}")
        print()
    _explained(here, models[0])
    print("computed through the chosen backend, against the definition in float64 (tokens and heads scaled down):\n")
    worst = max(_computed(here, model) for model in models)
    return 0 if worst < _HALF_PRECISION else 1


def _machines(here: Selector) -> Iterator[tuple[str, Selector]]:
    yield "this machine", here
    for path in sorted((data.folder("rules") / "machines").glob("*.yaml")):
        yield path.stem, Selector(rules=here.rules, facts=path, environment={})


def _decisions(selector: Selector, model: str) -> Iterator[str]:
    """Give a line for each role: the backend, the row that chose it, and what to be warned of."""
    for role in selector.rules.models[model].roles:
        decision = selector.decide(role, model=model)
        told = decision.backend or f"none: {decision.error.message if decision.error else ''}"
        build = f" ({decision.provider})" if decision.provider else ""
        yield f"{role:<22} {told + build:<26} {decision.rule or ''}"
        for warning in decision.warnings:
            yield f"{'':<22} ! {warning}"


def _explained(here: Selector, model: str) -> None:
    role = next(iter(here.rules.models[model].roles))
    decision = here.decide(role, model=model)
    width = terminal.terminal_width(sys.stdout, os.environ)
    colour, plain = terminal.use_colour(sys.stdout, os.environ), terminal.use_ascii(sys.stdout)
    print(f"why, for the role {role} on this machine:\n")
    print(tree.render_tree(decision, decision.explain(), width=width, colour=colour, ascii=plain))


def _computed(here: Selector, model: str) -> float:
    """Compute each role's attention at a size that suits a CPU, and give the largest error."""
    from selector.dispatch.compare import compare_with_reference  # imports torch

    worst = 0.0
    print(f"  {model}")
    known = here.rules.models[model]
    for name, role in known.roles.items():
        for shape in role.shapes[:1]:
            lengths, heads, mask = _scaled(shape), _heads(role), role.mask or "none"
            head_dim = int(role.facts.get("head_dim") or known.facts.get("head_dim") or 0)
            request = Request(role=name, model=model)
            found = compare_with_reference(here, request, lengths=lengths, heads=heads, head_dim=head_dim, mask=mask)
            worst = max(worst, found.error)
            size = f"{lengths[0]}×{lengths[1]} tokens, {heads[0]}/{heads[1]} heads of {head_dim}, mask {mask}"
            print(f"    {name:<22} {found.backend:<14} {size:<66} largest error {found.error:.1e}")
    return worst


def _scaled(shape: Shape) -> tuple[int, int]:
    """Divide both lengths by what brings the longer one to a size that a CPU computes at once."""
    factor = max(1, -(-max(shape.seq_len_q, shape.seq_len_kv) // _MOST_TOKENS))
    return max(1, shape.seq_len_q // factor), max(1, shape.seq_len_kv // factor)


def _heads(role: ModelRole) -> tuple[int, int]:
    """Scale the heads down, keeping how many of them share a KV head."""
    heads, kv_heads = int(role.facts.get("num_heads") or 1), int(role.facts.get("num_kv_heads") or 1)
    group = max(1, heads // kv_heads)
    return (max(1, _MOST_HEADS // group) * group, max(1, _MOST_HEADS // group))


if __name__ == "__main__":
    sys.exit(main())
