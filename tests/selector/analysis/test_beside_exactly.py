"""What differs beside the tables, entry by entry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from selector.analysis.beside import beside
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.rules.folders import file

CAUTION = "{when: {platform: cuda}, warn: Careful., because: x}"


def laid(folder: Path, name: str, text: str) -> RuleSet:
    """Load the shipped rules with one file laid over them."""
    folder.mkdir()
    return load_rules([file(folder, f"{name}.yaml", text)])


def both_ways(one: RuleSet, other: RuleSet) -> tuple[list[str], list[str]]:
    """Tell what differs, there and back."""
    return list(beside(one, other)), list(beside(other, one))


@pytest.mark.parametrize(
    ("kind", "entries", "there", "back"),
    [
        ("roles", "{mine: self, other: cross}", ["mine (new)", "other (new)"], ["mine (gone)", "other (gone)"]),
        ("roles", "{ltx2.connector: cross}", ["ltx2.connector (changed)"], ["ltx2.connector (changed)"]),
        ("roles", "{ltx2.connector: self}", [], []),
        ("models", "[{names: [A, B], mask_free: true, roles: {self: {}}}]", ["A (new)", "B (new)"],
         ["A (gone)", "B (gone)"]),
        ("warnings", "[{id: mine, when: {platform: cuda}, warn: Careful., because: x}]", ["mine (new)"],
         ["mine (gone)"]),
        ("warnings", f"[{CAUTION}]", ["1 (new)"], ["1 (gone)"]),
    ],
)  # fmt: skip
def test_entries_are_told_by_their_names(
    tmp_path: Path, kind: str, entries: str, there: list[str], back: list[str]
) -> None:
    """Those that one set alone has, and those of which it says something else."""
    found = both_ways(shipped(), laid(tmp_path / "new", kind, f"{kind}: {entries}"))

    assert found == ([f"{kind}: {line}" for line in there], [f"{kind}: {line}" for line in back])


@pytest.mark.parametrize(
    ("kind", "one", "other", "told"),
    [
        ("models", "[{names: [A, B], mask_free: true, roles: {self: {}}}]",
         "[{names: [A, B], mask_free: false, roles: {self: {}}}]", ["models: A (changed)", "models: B (changed)"]),
        ("warnings", f"[{CAUTION}]", "[{when: {platform: rocm}, warn: Careful., because: x}]",
         ["warnings: 1 (changed)"]),
        ("warnings", f"[{CAUTION}, {CAUTION}]", f"[{CAUTION}]", ["warnings: 2 (gone)"]),
        ("backends", "{NEW: {about: x}}", "{OTHER: {about: x}}", ["backends: NEW (gone)", "backends: OTHER (new)"]),
        ("backends", "{NEW: {about: x}}", "{NEW: {about: y}}", []),
        ("backends", f"{{NEW: {{about: x, unverified: [{CAUTION}]}}}}", "{NEW: {about: x}}",
         ["backends: what is unverified about NEW (changed)"]),
        ("backends", f"{{NEW: {{about: x, unverified: [{CAUTION}]}}}}",
         "{NEW: {about: x, unverified: [{when: {platform: rocm}, warn: Careful., because: x}]}}",
         ["backends: what is unverified about NEW (changed)"]),
        ("backends", f"{{NEW: {{about: x, unverified: [{CAUTION}]}}}}",
         "{NEW: {about: x, unverified: [{when: {platform: cuda}, warn: Beware., because: x}]}}",
         ["backends: what is unverified about NEW (changed)"]),
        ("backends", f"{{NEW: {{about: x, unverified: [{CAUTION}]}}}}",
         "\n  NEW: {about: x, unverified: [{when: {platform: cuda}, warn: Careful., because: y}]}", []),
    ],
)  # fmt: skip
def test_two_sets_with_entries_of_their_own(tmp_path: Path, kind: str, one: str, other: str, told: list[str]) -> None:
    """Reasons, descriptions and places are no difference."""
    sets = [laid(tmp_path / name, kind, f"{kind}: {text}") for name, text in (("one", one), ("other", other))]

    assert list(beside(*sets)) == told


def test_what_differs_comes_kind_by_kind(tmp_path: Path) -> None:
    """What the older set has goes first."""
    folders = [tmp_path / name for name in ("models", "roles", "warnings", "backends")]
    texts = ("[{names: [A], mask_free: true, roles: {self: {}}}]", "{mine: self}", f"[{CAUTION}]", "{NEW: {about: x}}")
    for folder, text in zip(folders, texts, strict=True):
        folder.mkdir()
        file(folder, f"{folder.name}.yaml", f"{folder.name}: {text}")

    whole = load_rules(folders)

    assert list(beside(shipped(), whole)) == ["models: A (new)", "roles: mine (new)", "warnings: 1 (new)",
                                              "backends: NEW (new)"]  # fmt: skip
    assert list(beside(whole, whole)) == []
    assert list(beside(whole, replace(whole, digest=""))) == []


def test_fields_of_a_backend_are_told_one_by_one() -> None:
    """In one order, between what is told of other backends."""
    old = shipped()
    one = replace(
        old.backends["FLASH_ATTN"],
        default_name="x",
        unbound="x",
        takes=("x",),
        reads=old.backends["TRTLLM_ATTN"].reads,
        providers=("fa4", "fa2"),
    )
    without = {name: backend for name, backend in old.backends.items() if name != "TORCH_SDPA"}
    new = replace(old, backends={**without, "FLASH_ATTN": one})

    fields = ["providers", "reads", "takes", "unbound", "default_name"]
    changed = [f"backends: `{field}` of FLASH_ATTN (changed)" for field in fields]
    assert sorted(beside(old, new)) == sorted(["backends: TORCH_SDPA (gone)", *changed])
    assert [line for line in beside(old, new) if "FLASH" in line] == changed
    assert list(beside(new, old)) == [*changed, "backends: TORCH_SDPA (new)"]


def test_builds_are_told_beside() -> None:
    """One that is new or gone, and one whose failure to bind is another fact's."""
    old = shipped()
    changed = replace(old.providers["fa2"], unbound="packages.flash-attn-4")
    new = replace(
        old, providers={**{name: one for name, one in old.providers.items() if name != "fa3"}, "fa2": changed}
    )

    assert list(beside(old, new)) == ["providers: fa3 (gone)", "providers: `unbound` of fa2 (changed)"]
    assert list(beside(new, old)) == ["providers: `unbound` of fa2 (changed)", "providers: fa3 (new)"]
