"""Compiled tables that compare versions and architectures, which no list of values tells apart."""

from __future__ import annotations

from random import Random

import pytest

from selector.rules.compiled import compiled
from selector.rules.vocabulary import Value
from selector.rules.walk import first
from selector.tables import read_table

VOCABULARY = """
facts:
  arch: {type: string, group: machine, about: The architecture., order: capability, "null": true}
  steps: {type: integer, group: request, about: How many., minimum: 1, special: [symbolic]}
packages:
  kernels: {distributions: [kernels], about: Some kernels.}
"""
VERSIONS = [None, "1.0", "1.9", "2.0rc1", "2.0", "2.0.0", "2.0.post1", "2.1", "3.0"]
ARCHS = [None, "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942"]
STEPS: list[Value] = [1, 2, 7, 8, 9, 64, "symbolic"]
PARTS = [
    'packages.kernels: "2.0"', 'packages.kernels: ["1.9", "2.1"]', 'packages.kernels: ">=2"', 'packages.kernels: "<2"',
    'packages.kernels: ">=2,<3"', 'packages.kernels: "==2.*"', "packages.kernels: present", "packages.kernels: absent",
    'arch: ">=sm_90"', "arch: {min: sm_90}", "arch: {max: sm_100}", "arch: sm_10x", "arch: [sm_80, sm_89]",
    "arch: present", "steps: {min: 8}", "steps: {max: 8}", "steps: {max: 1}", "steps: {multiple_of: 8}",
    "steps: symbolic", "steps: {min: 1}",
]  # fmt: skip


def condition(dice: Random) -> str:
    """Draw one condition or two, some of them turned around."""
    chosen = dice.sample(PARTS, dice.randint(1, 2))
    parts = [f"not: {{{part}}}" if dice.random() < 1 / 3 else part for part in chosen]
    if len({part.split(":")[0] for part in parts}) < len(parts):
        return f"all: [{', '.join(f'{{{part}}}' for part in parts)}]"
    return ", ".join(parts)


@pytest.mark.parametrize("seed", range(60))
def test_every_situation_is_decided_as_the_walker_does(seed: int) -> None:
    """Whether or not the table requires the facts, with each of them known, null or missing."""
    dice = Random(seed)
    rows = "".join(f"  - {{id: r{at}, when: {{{condition(dice)}}}, use: A, because: x}}\n" for at in range(5))
    names = dice.sample(["arch", "steps", "packages.kernels"], dice.randint(0, 3))
    requires = f"requires: [{', '.join(names)}]\n" if names else ""
    decider = read_table(VOCABULARY, f"table: t\n{requires}rows:\n{rows}")
    table = decider.table
    decide = compiled(table, {}, decider.vocabulary, table.rows)

    for version in VERSIONS:
        for arch in ARCHS:
            for steps in STEPS:
                known: dict[str, Value] = {"arch": arch, "steps": steps, "packages.kernels": version}
                gone = [name for name in known if name not in names and dice.random() < 1 / 5]
                facts = {name: value for name, value in known.items() if name not in gone}
                assert decide(facts) is first(table, facts, {}), (facts, rows)
