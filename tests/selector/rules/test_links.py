from __future__ import annotations

from pathlib import Path

import pytest

from selector.ruleset import load_rules, shipped
from tests.selector.rules.folders import default, edited, explicit, file, refusals, where

_TABLE = "table `platform_default`"
_FIRE = "always holds, so the rows behind it never fire\n  hint: give it a `when`, or make it the last row"


def test_a_fact_that_decisions_are_made_with_must_be_declared(tmp_path: Path) -> None:
    """A vocabulary without it does not load, even where no rule asks for it."""
    file(tmp_path, "vocabulary.yaml", "facts: {role_category: null}")

    assert refusals(tmp_path) == [
        "rules/vocabulary.yaml: missing-fact: the fact `role_category` must be declared: decisions are made with it"
    ]


def test_a_rule_cannot_ask_for_a_backend_that_there_is_not(tmp_path: Path) -> None:
    """The fact `backend` takes the names of the backends file and no other."""
    explicit(tmp_path, "id: typo, when: {backend: CUDN_ATTN}, refuse: no")

    (found,) = refusals(tmp_path)
    names = ", ".join(shipped().backends)
    wrong = f"`backend`: wanted one of {names}, got `CUDN_ATTN`\n  hint: did you mean `CUDNN_ATTN`?"
    assert found == f"explicit.yaml:7:32: bad-value: {wrong}"


def test_a_backends_file_that_is_no_mapping_is_told_as_such(tmp_path: Path) -> None:
    """Rules that name backends are then told too: nothing is known of any."""
    file(tmp_path, "backends.yaml", "backends: []")

    assert "backends.yaml:1:11: wrong-type: `backends`: wanted a mapping, got a list" in refusals(tmp_path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("id: a, when: {platform: cpu}, use: TORCH_SDPAA",
         "6:5: unknown-backend: no backend `TORCH_SDPAA`\n  hint: did you mean `TORCH_SDPA`?"),
        ("id: a, when: {platform: cpu}, use: sdpa", "6:5: unknown-backend: no backend `sdpa`"),
        ('id: a, when: {platform: cpu}, use: "{backend}"',
         f"6:5: target-not-required: row `a` takes its target from `backend`, which {_TABLE} does not require"),
        ("id: a, when: {platform: cpu}, use: 'T{backend}'", "6:5: unknown-backend: no backend `T{backend}`"),
        ("id: a, use: TORCH_SDPA",
         f"6:5: unreachable: row `a` {_FIRE}"),
        ("id: last, when: {platform: cpu}, use: TORCH_SDPA",
         "7:5: duplicate-row: row `last` stands twice in table `platform_default`\n  hint: the first is in line 6"),
    ],
)  # fmt: skip
def test_what_a_row_names_must_be_there(tmp_path: Path, row: str, said: str) -> None:
    """A target that is not known, and a row that leaves nothing to those behind it, have their place."""
    default(tmp_path, row, "id: last, use: TORCH_SDPA")

    assert refusals(tmp_path) == [f"platform_default.yaml:{said}"]


def test_a_row_that_may_fall_through_needs_no_condition(tmp_path: Path) -> None:
    """What its backend needs is condition enough."""
    default(tmp_path, "id: a, use: CUDNN_ATTN", "id: last, use: TORCH_SDPA")

    assert len(load_rules([tmp_path]).table("platform_default").rows) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("id: last, when: {platform: cpu}, use: TORCH_SDPA",
         "table `platform_default` has no last resort: wanted a last row without `when`"),
        ("id: last, use: CUDNN_ATTN",
         "the last row of table `platform_default` uses `CUDNN_ATTN`, which cannot run everywhere"),
    ],
)  # fmt: skip
def test_a_table_ends_in_a_last_resort(tmp_path: Path, row: str, said: str) -> None:
    """The last row has no condition and uses what runs everywhere."""
    default(tmp_path, row)

    assert refusals(tmp_path) == [f"platform_default.yaml:6:5: no-last-resort: {said}"]


def test_entries_and_providers_are_looked_up_where_they_belong(tmp_path: Path) -> None:
    """Each table has its own kind of targets."""
    file(tmp_path, "a.yaml", "table: role_fallback\nrows:\n  - {id: a, entry: categry, because: x}\n")
    file(tmp_path, "b.yaml", "table: provider\ntargets: providers\nrows:\n  - {id: a, use: fa22, because: x}\n")

    assert refusals(tmp_path) == [
        "a.yaml:3:5: unknown-entry: no entry `categry`\n  hint: did you mean `category`?",
        "b.yaml:4:5: unknown-provider: no provider `fa22`\n  hint: did you mean `fa2`?",
    ]


def test_a_provider_belongs_to_one_backend(tmp_path: Path) -> None:
    """A backend cannot list the build of another one."""
    edited(tmp_path, "backends.yaml", "providers: [sage2, sage1]", "providers: [sage2, fa2]")

    place = where(tmp_path, "backends.yaml", "SAGE_ATTN:")
    assert refusals(tmp_path) == [
        f"{place}: wrong-provider: provider `fa2` belongs to `FLASH_ATTN`, not to `SAGE_ATTN`"
    ]


def test_mistakes_of_all_files_are_told_together(tmp_path: Path) -> None:
    """Files are told by name and each from top to bottom; cycles are looked for once the rest is right."""
    default(tmp_path, "id: a, when: {platfrm: cpu}, use: TORCH_SDPA", "id: last, when: {arch: sm_90}, use: NOTHING")
    explicit(tmp_path, "id: self, when: {backend: SAGE_ATTN}, substitute: SAGE_ATTN", "id: B, refuse: no")
    file(tmp_path, "roles.yaml", "role: {}\nroles: {a: 1}\n")

    assert [" ".join(one.split(": ")[:2]) for one in refusals(tmp_path)] == [
        "explicit.yaml:8:5 unreachable",
        "explicit.yaml:8:10 bad-id",
        "platform_default.yaml:6:20 unknown-fact",
        "platform_default.yaml:7:5 unknown-backend",
        "platform_default.yaml:7:5 no-last-resort",
        "roles.yaml:1:1 unknown-key",
        "roles.yaml:2:12 wrong-type",
    ]


# --- one mistake, one problem ---


@pytest.mark.parametrize(
    "row",
    [
        "id: a, use: TORCH_SDPAA",
        "id: a, ues: TORCH_SDPA",
        "id: a, use: '{backnd}'",
        "id: a, when: {platfrm: cpu}, use: TORCH_SDPA",
        "id: a, when: {platform: [cpu, cud]}, use: TORCH_SDPA",
        "id: a, when: [], use: TORCH_SDPA",
        "id: a, wen: {platform: cpu}, use: CUDNN_ATTN",
    ],
)
def test_one_mistake_in_a_row_makes_one_problem(tmp_path: Path, row: str) -> None:
    """What is meant to be a condition or a target counts as one in the check of the order."""
    default(tmp_path, row, "id: last, use: TORCH_SDPA")

    assert len(refusals(tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("backends.yaml", "backend: SAGE_ATTN\n", "backend: SAGE_ATN\n"),
        ("platform_default.yaml", "targets: backends", "targets: backnds"),
        ("vocabulary.yaml", "of: [seq_len_q, seq_len_kv]", "of: [seq_len_q, seq_len_k]"),
        ("vocabulary.yaml", "type: boolean\n    group: call", "type: bolean\n    group: call"),
        ("models.yaml", "mask: key_padding\n", "maks: key_padding\n"),
    ],
)
def test_one_mistake_in_a_file_makes_one_problem(tmp_path: Path, name: str, old: str, new: str) -> None:
    """What follows from a mistake in a word is not told at every use of the word."""
    edited(tmp_path, name, old, new)

    assert len(refusals(tmp_path)) == 1


def test_a_mistake_in_what_a_provider_needs_does_not_make_a_row_hide_others(tmp_path: Path) -> None:
    """A need that could not be read is a need."""
    edited(tmp_path, "backends.yaml", "{packages.flash-attn: present}", "{packages.flash-atn: present}")
    edited(tmp_path, "provider.yaml", "when: {backend: FLASH_ATTN}\n    use: fa2", "use: fa2")

    assert len(refusals(tmp_path)) == 1


def test_a_target_is_read_from_a_fact_that_names_targets(tmp_path: Path) -> None:
    """A role is no backend, and a decision that takes it for one would break."""
    text = """\
table: platform_default
targets: backends
requires: [platform, role]
rows:
  - {id: a, when: {platform: cuda}, use: "{role}", because: x}
  - {id: last, use: TORCH_SDPA, because: x}
"""
    file(tmp_path, "platform_default.yaml", text)

    assert len(refusals(tmp_path)) == 1


def test_a_number_of_every_length_has_a_digest(tmp_path: Path) -> None:
    """The longest hexadecimal number that is read is content like any other."""
    default(tmp_path, f"id: a, when: {{head_dim: 0x{'f' * 998}}}, use: TORCH_SDPA", "id: last, use: TORCH_SDPA")

    assert load_rules([tmp_path]).digest != shipped().digest
