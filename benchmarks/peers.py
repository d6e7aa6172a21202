"""Our tables as a contender in a benchmark of rule engines that takes plug-ins.

The benchmark hands over one neutral table, a list of ``{"id", "when": [(fact, op, value), …], "then": backend}`` whose
ops are eq, in, ge, lt and has (a package is there); `Contender.load` is timed, and `decide` and `decide_traced` are
asked about one adapted set of facts at a time. `Checked` is the same with the facts checked in every decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from selector.tables import bind, read_table

PACKAGES = ("flashinfer", "flash_attn", "flash_attn_4", "sageattention")
NUMBERS = ("sm_major", "sm_minor", "cudnn", "head_dim")
OPERATORS: Mapping[str, Callable[[Any], object]] = {
    "eq": lambda value: value,
    "in": list,
    "ge": lambda value: {"min": value},
    "lt": lambda value: {"max": value - 1},
}


class Contender:
    """The bound table, on facts that are checked beforehand."""

    name = "attention-selector"
    dist = "attention-selector"
    imports = "import selector"
    depth = "conds"
    note = "the table bound to its ids: compiled, or by columns where it is large"
    refresh = False
    max_n = 10_000
    decide: Callable[[Mapping[str, object]], object]

    def source(self, table: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """Give the vocabulary and the table as text; the table requires the facts that it asks about."""
        facts: dict[str, object] = {
            name: {"type": "integer", "group": "machine", "about": "A number."} for name in NUMBERS
        }
        facts["mask_free"] = {"type": "boolean", "group": "request", "about": "Whether there is no mask."}
        packages = {package(name): {"distributions": [name], "about": "A package."} for name in PACKAGES}
        rows: list[dict[str, Any]] = []
        for row in table:
            when: dict[str, object] = {}
            for fact, op, value in row["when"]:
                if op == "has":
                    when[f"packages.{package(value)}"] = "present"
                else:
                    when[fact] = OPERATORS.get(op, lambda value, op=op: {op: value})(value)
            rows.append({"id": row["id"], "when": when or {}, "use": row["then"], "because": "The table says so."})
            if not when:
                del rows[-1]["when"]
        asked = dict.fromkeys(fact for row in rows for fact in row.get("when", ()))
        words = {"facts": facts, "packages": packages}
        return json.dumps(words), json.dumps({"table": "peers", "requires": [*asked], "rows": rows})

    def load(self, source: tuple[str, str]) -> None:
        """Read, check and bind."""
        self.decider = read_table(*source)
        self.decide = self.bound([row.id for row in self.decider.table.rows])

    def bound(self, names: Sequence[str]) -> Callable[..., object]:
        """Give the function that is timed."""
        return self.decider.bind(names)

    def adapt(self, facts: Mapping[str, Any]) -> dict[str, object]:
        """Give the facts that the table requires by their names, packages with a version or null."""
        told = {name: value for name, value in facts.items() if name != "packages"}
        told |= {f"packages.{package(name)}": "1.0" if name in facts["packages"] else None for name in PACKAGES}
        return {name: told[name] for name in self.decider.table.requires if name in told}

    def decide_traced(self, facts: Mapping[str, Any]) -> tuple[object, object]:
        """Give the row with a step for every row: each condition, wanted and got."""
        steps = self.decider.steps(facts)
        return next(step.row.id for step in steps if step.outcome == "chosen"), steps


class Checked(Contender):
    """The same on raw facts: every decision checks them."""

    name = "attention-selector, facts checked"
    note = "the same, with every fact checked in every decision"

    def bound(self, names: Sequence[str]) -> Callable[..., object]:
        """Give the function that is timed."""
        return bind(self.decider, names)


def package(name: str) -> str:
    """Give a package's key."""
    return name.replace("_", "-")


CONTENDERS = [Contender, Checked]
