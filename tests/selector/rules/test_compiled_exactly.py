"""The code that small tables are made into: no question is asked that is answered already, and none is written twice.

What the code decides is held to the walker elsewhere; here it is held to what it costs.
"""

from __future__ import annotations

import pytest

from selector.rules import compiled
from selector.rules.compiled import Guard, TooLargeError, _ways, _Writer
from tests.selector.rules.language import table, words


def written(requires: str, when: list[str], guard: Guard | None = None) -> list[str]:
    """Give the code of a table with a row for each condition."""
    rows = "".join(f"  - {{id: r{at}, when: {{{one}}}, use: A, because: x}}\n" for at, one in enumerate(when))
    known = table(f"table: t\nrequires: [{requires}]\nrows:\n{rows}")
    ways = [way for at, row in enumerate(known.rows) for way in _ways(row, at, {}, None)]
    writer = _Writer(known, words(), ways)
    writer.function(range(len(when)), guard)
    return writer.lines


@pytest.mark.parametrize(
    ("requires", "when", "code"),
    [
        (
            "steps",
            ["steps: 1", "steps: [1, 2]", "steps: {min: 5}"],
            [
                " v0 = facts['steps']",
                " if v0 == 1:",
                "  return r0",
                " if v0 == 2:",
                "  return r1",
                " if v0 >= 5:",
                "  return r2",
                " return None",
            ],
        ),
        (
            "",
            ["steps: 1", "steps: [1, 2]", "steps: {min: 5}"],
            [
                " v0 = facts.get('steps', unknown)",
                " if v0 == 1:",
                "  return r0",
                " if v0 == 2:",
                "  return r1",
                " if v0.__class__ is int and v0 >= 5:",
                "  return r2",
                " return None",
            ],
        ),
        (
            "steps",
            ["steps: {min: 5}", "steps: {max: 9, min: 2}", "steps: 5"],
            [
                " v0 = facts['steps']",
                " if v0 >= 5:",
                "  return r0",
                " if v0 >= 2:",
                "  return r1",
                " return None",
            ],
        ),
        (
            "",
            ["cudnn: {min: 5}", "cudnn: {max: 4}", "cudnn: present"],
            [
                " v0 = facts.get('cudnn', unknown)",
                " if v0.__class__ is int and v0 >= 5:",
                "  return r0",
                " if v0.__class__ is int and v0 <= 4:",
                "  return r1",
                " return None",
            ],
        ),
        (
            "steps",
            ["steps: {multiple_of: 2}", "steps: {multiple_of: 2}, role: x", "role: [x, y], steps: 3"],
            [
                " v0 = facts['steps']",
                " if t4(v0):",
                "  return r0",
                " v1 = facts.get('role', unknown)",
                " if v1 in {'x', 'y'}:",
                "  if v0 == 3:",
                "   return r2",
                "  return None",
                " return None",
            ],
        ),
        (
            "head_dim",
            ["head_dim: symbolic", "head_dim: {multiple_of: 8}", "head_dim: {max: 5, min: 3}", "head_dim: [3, 7]"],
            [
                " v0 = facts['head_dim']",
                " if v0 == 'symbolic':",
                "  return r0",
                " if t5(v0):",
                "  return r1",
                " if v0.__class__ is int and v0 <= 5:",
                "  if v0.__class__ is int and v0 >= 3:",
                "   return r2",
                "  return None",
                " if v0 == 7:",
                "  return r3",
                " return None",
            ],
        ),
        (
            "role",
            ["role: x", "role: [x, y]", "not: {role: y}", "role: z"],
            [
                " v0 = facts['role']",
                " if v0 == 'x':",
                "  return r0",
                " if v0 == 'y':",
                "  return r1",
                " return r2",
            ],
        ),
        (
            "platform",
            ["platform: cuda", "platform: [rocm, cpu]", "platform: cpu"],
            [
                " v0 = facts['platform']",
                " if v0 == 'cuda':",
                "  return r0",
                " return r1",
            ],
        ),
        (
            "packages.flash",
            ["packages.flash: absent", 'packages.flash: ">=2"', "packages.flash: present"],
            [
                " v0 = facts['packages.flash']",
                " if v0 is None:",
                "  return r0",
                " if t4(v0):",
                "  return r1",
                " return r2",
            ],
        ),
        (
            "",
            ["packages.flash: absent", 'packages.flash: ">=2"', "packages.flash: present"],
            [
                " v0 = facts.get('packages.flash', unknown)",
                " if v0 is None:",
                "  return r0",
                " if t4(v0):",
                "  return r1",
                " if v0 is not None and v0 is not unknown:",
                "  return r2",
                " return None",
            ],
        ),
        (
            "causal",
            ["causal: present"],
            [
                " v0 = facts['causal']",
                " if v0 is not None:",
                "  return r0",
                " return None",
            ],
        ),
        (
            "causal, mask_free",
            ["causal: absent, mask_free: false", "causal: false, mask_free: true"],
            [
                " v0 = facts['causal']",
                " if v0 is None:",
                "  v1 = facts['mask_free']",
                "  if not v1:",
                "   return r0",
                "  return None",
                " if v0 == False:",
                "  v1 = facts['mask_free']",
                "  if v1:",
                "   return r1",
                "  return None",
                " return None",
            ],
        ),
        (
            "role, steps",
            ["not: {any: [{role: x}, {steps: 1}]}", "steps: 1"],
            [
                " v0 = facts['steps']",
                " if t3(v0):",
                "  v1 = facts['role']",
                "  if t4(v1):",
                "   return r0",
                "  return None",
                " return r1",
            ],
        ),
        (
            "",
            ["platform: {equals: cuda, unknown: match}", "platform: {equals: rocm, unknown: fail}"],
            [
                " v0 = facts.get('platform', unknown)",
                " if t3(v0):",
                "  return r0",
                " if v0 == 'rocm':",
                "  return r1",
                " return None",
            ],
        ),
        (
            "role",
            ["steps: {multiple_of: 2}, role: x", "not: {steps: {multiple_of: 2}}"],
            [
                " v0 = facts.get('steps', unknown)",
                " if t3(v0):",
                "  v1 = facts['role']",
                "  if v1 == 'x':",
                "   return r0",
                "  return None",
                " if t4(v0):",
                "  return r1",
                " return None",
            ],
        ),
        (
            "mask_free",
            ["mask_free: true", "mask_free: false"],
            [" v0 = facts['mask_free']", " if v0:", "  return r0", " return r1"],
        ),
        ("num_heads", ["num_heads: {min: 1}"], [" return r0"]),
        (
            "mask, causal, role",
            ["mask: none, causal: true", "role: x, causal: true", "mask: none, role: z"],
            [
                " v0 = facts['mask']",
                " if v0 == 'none':",
                "  v1 = facts['causal']",
                "  if v1 == True:",
                "   return r0",
                "  v2 = facts['role']",
                "  if v2 == 'z':",
                "   return r2",
                "  return None",
                " v2 = facts['role']",
                " if v2 == 'x':",
                "  v1 = facts['causal']",
                "  if v1 == True:",
                "   return r1",
                "  return None",
                " return None",
            ],
        ),
    ],
)
def test_what_is_known_is_not_asked(requires: str, when: list[str], code: list[str]) -> None:
    """What one answer says of later tests is used, and a fact is read where it is first needed."""
    assert written(requires, when) == code


def test_a_guard_looks_at_every_fact_before_anything_is_asked() -> None:
    """At what is cheap to see: types, bounds, texts that were seen before, and that nothing else is given."""
    requires = "head_dim, causal, steps, platform, cudnn, packages.flash, mask_free"

    found = written(requires, ["head_dim: 64"], Guard(lambda _: None, {}))

    assert found == [
        " try:",
        "  v0 = facts['head_dim']",
        "  v1 = facts['causal']",
        "  v2 = facts['steps']",
        "  v3 = facts['platform']",
        "  v4 = facts['cudnn']",
        "  v5 = facts['packages.flash']",
        "  v6 = facts['mask_free']",
        (
            "  right = len(facts) == 7 and "
            "v0.__class__ is int and "
            "v0 >= 1 and "
            "(v1 is None or v1.__class__ is bool) and "
            "v2.__class__ is int and "
            "v3 in k3 and "
            "(v4 is None or v4.__class__ is int and "
            "v4 >= 1) and "
            "(v5 is None or v5 in k5) and "
            "v6.__class__ is bool"
        ),
        " except (KeyError, TypeError):",
        "  right = False",
        " if not right:",
        "  return others(facts)",
        " if v0 == 64:",
        "  return r0",
        " return None",
    ]


def test_a_guard_needs_every_fact_of_the_table() -> None:
    """What may be missing is looked at by the others alone."""
    with pytest.raises(TooLargeError):
        written("steps", ["steps: 1, role: x"], Guard(lambda _: None, {}))


@pytest.mark.parametrize(("parts", "fits"), [(32, True), (33, False)])
def test_a_condition_may_hold_in_so_many_ways(parts: int, fits: bool) -> None:
    """One of several, or several of which each has its ways."""
    any_of = ", ".join(f"{{steps: {at}}}" for at in range(parts))
    half = any_of[: any_of.index("{steps: 16}")]
    all_of = f"all: [{{any: [{{causal: true}}, {{mask_free: true}}]}}, {{any: [{half}]}}]"

    for when in (f"any: [{any_of}]", all_of if fits else all_of.replace("[{steps: 0}", "[{role: x}, {steps: 0}")):
        if fits:
            assert written("", [when])
        else:
            with pytest.raises(TooLargeError):
                written("", [when])


def test_code_ends_where_it_is_as_long_or_as_deep_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that needs one line or one level less is compiled."""
    when = ["causal: true, mask_free: true, steps: 1", "role: x"]
    lines = written("", when)
    deep = max(len(line) - len(line.lstrip()) for line in lines)

    for name, least in (("MOST_LINES", len(lines) - 1), ("_MOST_DEEP", deep)):
        with monkeypatch.context() as patch:
            patch.setattr(compiled, name, least)
            assert written("", when) == lines
            patch.setattr(compiled, name, least - 1)
            with pytest.raises(TooLargeError):
                written("", when)
