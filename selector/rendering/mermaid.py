"""A decision as a Mermaid flowchart: a node for each row that was considered, the reasons on the edges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from selector.decision import Decision
from selector.rendering.reasons import obstacles, sentence
from selector.rendering.rows import abilities_for, action, read_with, title
from selector.rendering.text import visible
from selector.rendering.tree import answer
from selector.ruleset import RuleSet
from selector.tracing import Trace, Walk

_CLASSES = (
    "classDef winner fill:#dafbe1,stroke:#1a7f37,stroke-width:3px,color:#000",
    "classDef rejected fill:#ffebe9,stroke:#cf222e,color:#000",
    "classDef undetermined fill:#fff8c5,stroke:#9a6700,color:#000",
    "classDef unreached fill:#f6f8fa,stroke:#8c959f,color:#57606a,stroke-dasharray:4",
    "classDef answer fill:#ddf4ff,stroke:#0969da,stroke-width:3px,color:#000",
)
_PLAIN = re.compile(r"[^\w .,:()/=+\[\]-]")
_KEYWORD = re.compile(r"style|classDef|direction")
"""What Mermaid looks for anywhere in a line, quotes or not, before it parses or while it does."""
_ANSWER = "answer"


def render_mermaid(decision: Decision, trace: Trace, *, rules: RuleSet | None = None) -> str:
    """Give a chart (``flowchart TD``) that Mermaid can draw whatever the names in it are.

    A decision read from JSON needs the rules it was made with: give them, or `ValueError` is raised.
    """
    chart = _Chart()
    chart.node("ask", f"role {decision.role}" if decision.role else "request", "unreached")
    chart.node(_ANSWER, answer(decision), "answer")
    here, label = "ask", ""
    for number, (walk, known) in enumerate(read_with(decision, trace, rules)):
        here, label = chart.walk(f"t{number}", walk, known, (here, label))
    chart.edge(here, label, _ANSWER)
    lines = ["flowchart TD", *(f"    {line}" for line in (*chart.nodes, *chart.edges, *_CLASSES))]
    return "".join(f"{line}\n" for line in lines)


def escaped(text: str) -> str:
    """Write a text so that it can stand between the quotes of a label and means nothing else to Mermaid.

    Signs become numbered entities. So does the first letter of the few words that Mermaid finds even between quotes.
    """
    signs = _PLAIN.sub(lambda match: f"#{ord(match[0])};", visible(text))
    return _KEYWORD.sub(lambda match: f"#{ord(match[0][0])};{match[0][1:]}", signs)


@dataclass(slots=True)
class _Chart:
    """The statements so far."""

    nodes: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def node(self, name: str, text: str, kind: str) -> None:
        self.nodes.append(f'{name}["{escaped(text)}"]:::{kind}')

    def edge(self, start: str, label: str, end: str, line: str = "-->") -> None:
        told = f'|"{escaped(label)}"|' if label else ""
        self.edges.append(f"{start} {line}{told} {end}")

    def walk(self, name: str, walk: Walk, rules: RuleSet, before: tuple[str, str]) -> tuple[str, str]:
        """Add a table's rows in their order; gives the last one with the label of the edge that leaves it."""
        here, label = before
        self.nodes.append(f'subgraph {name}["{escaped(title(walk))}"]')
        for number, (text, kind, reason) in enumerate(_rows(walk, rules)):
            self.node(f"{name}r{number}", text, kind)
            self.edge(here, label, f"{name}r{number}")
            here, label = f"{name}r{number}", reason
        rest = [step.row.id for step in walk.steps if step.outcome == "not_reached"]
        if rest:
            self.node(f"{name}rest", f"not reached: {', '.join(rest)}", "unreached")
            self.edge(here, "", f"{name}rest", "-.->")
        self.nodes.append("end")
        return here, label


def _rows(walk: Walk, rules: RuleSet) -> Iterator[tuple[str, str, str]]:
    """Give each row that was considered: its text, its class, and why the path goes on from it."""
    abilities = abilities_for(walk.table, rules)
    for step in walk.steps:
        if step.outcome == "chosen":
            yield step.row.id, "winner", action(step.row, walk.facts)
        elif step.outcome != "not_reached":
            yield step.row.id, step.outcome, sentence(obstacles(step, walk.facts, abilities))
