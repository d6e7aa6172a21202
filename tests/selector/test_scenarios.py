"""Scenarios: how files are found and read, what differs, and what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from selector.rules.problems import ProblemsError
from selector.ruleset import RuleSet, load_rules, shipped
from selector.scenario.coverage import Coverage, Point, Share
from selector.scenario.expecting import Difference, Names, differences
from selector.scenario.files import ScenarioPath, beside, named
from selector.scenario.reading import Scenarios, read_scenarios
from selector.scenario.report import Look, differs, failure, percent
from selector.scenario.running import Run, run_scenarios
from selector.tracing import Trace
from tests.selector.conftest import CPU, FA2, FI, HUB, cuda, decide

CPU_TEXT = "{platform: cpu, arch: null, cudnn: null, packages: {}}"
TINY = """\
table: platform_default
targets: backends
actions: [use]
requires: [platform]
rows:
  - id: large
    when:
      platform: cuda
      any: [{head_dim: 64}, {head_dim: {min: 256}}, {head_dim: 72}]
      not: {compile: true}
    use: CUDNN_ATTN
    because: x
  - {id: last, use: TORCH_SDPA, because: x}
"""


def write(folder: Path, text: str, name: str = "s.yaml") -> ScenarioPath:
    """Write a file of scenarios, which messages call `s.yaml`."""
    (folder / name).write_text(text, encoding="utf-8")
    return ScenarioPath(name, folder / name)


def read(folder: Path, text: str, rules: RuleSet | None = None) -> Scenarios:
    """Write and read one file."""
    return read_scenarios([write(folder, text)], rules or shipped())


def problems(*paths: ScenarioPath) -> list[str]:
    """Read files that must be refused."""
    with pytest.raises(ProblemsError) as caught:
        read_scenarios(paths, shipped())
    return [str(problem) for problem in caught.value.problems]


def scenario(expect: str, more: str = "", name: str = "one") -> str:
    """Write a scenario on the CPU."""
    return f"  - {{id: {name}, facts: {CPU_TEXT}, {more}expect: {{{expect}}}}}\n"


def one(folder: Path, expect: str, more: str = "") -> list[Difference]:
    """Run one scenario on the CPU, and give how it differs."""
    run = run_scenarios(read(folder, "scenarios:\n" + scenario(expect, more)), shipped())
    return [*run.outcomes[0].differences]


# --- finding ---


def test_folders_and_files_are_named(tmp_path: Path) -> None:
    """A folder stands for the files directly in it, in the order of their names; what is named twice runs once."""
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.yaml").write_text("", encoding="utf-8")

    found = named([str(tmp_path), str(tmp_path / "b.yaml"), str(tmp_path / "inner" / "d.yaml")])

    assert [path.path.name for path in found] == ["a.yml", "b.yaml", "c.json", "d.yaml"]


def test_a_folder_without_scenarios_is_a_problem(tmp_path: Path) -> None:
    """So that a slip in its name does not pass as success."""
    with pytest.raises(ProblemsError) as caught:
        named([str(tmp_path)])

    assert str(caught.value) == f"{tmp_path}: no-scenarios: the folder holds no scenario file (*.yaml)"


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason of the system."""

    def fail(_self: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", fail)
    with pytest.raises(ProblemsError, match="unreadable: cannot read the folder: permission denied"):
        named([str(tmp_path)])


def test_scenarios_beside_rules(tmp_path: Path) -> None:
    """Those of each folder that has a folder `tests`; the shipped ones where no folder is given."""
    (tmp_path / "mine" / "tests").mkdir(parents=True)
    write(tmp_path / "mine" / "tests", "scenarios: []\n")

    found = beside([str(tmp_path / "mine"), str(tmp_path / "none"), str(tmp_path / "mine" / "tests" / "s.yaml")])

    assert [path.name for path in found] == [str(tmp_path / "mine" / "tests" / "s.yaml")]
    assert [path.name for path in beside([])[:2]] == ["rules/tests/call.yaml", "rules/tests/document.yaml"]


# --- reading ---


def test_all_problems_of_all_files_at_once(tmp_path: Path) -> None:
    """Each with its place and the nearest name; one mistake makes one problem."""
    first = write(
        tmp_path,
        "scenarios:\n"
        "  - id: Not Kebab\n"
        "    facts: {platform: cuda, cudn: 91002, packages: {flash-atn: '2'}}\n"
        "    reqest: {head_dim: 128}\n"
        "    expect: {backend: CUDNN_ATN, rule: explicit/abel, provider: fa5, warnings: x, eror: null}\n"
        "  - id: two\n"
        "    facts: {platform: cuda, arch: ampere}\n"
        "    policy: lax\n"
        "    env: []\n"
        "    expect: {error: none, blames: ['explicit/able:dtype.inn', 'explicit/able:dtype.in']}\n",
    )
    second = write(
        tmp_path,
        "scenarios:\n"
        "  - {id: two, expect: {}}\n"
        "  - 3\n"
        "  - {id: 3, facts: {platform: cpu}, expect: {backend: TORCH_SDPA}}\n"
        "unreachable:\n"
        "  - {code: 3, never: wins, because: x}\n"
        "  - {code: explicit/refus, never: wins, because: x}\n"
        "  - {code: explicit/able, never: holds, because: x}\n"
        "  - {code: explicit/able, never: somtimes}\n"
        "  - {code: 'call/pack:mask.i', never: holds, because: x}\n",
        "t.yaml",
    )

    assert problems(first, second, ScenarioPath("none.yaml", tmp_path / "none.yaml")) == [
        "none.yaml: unreadable: cannot read the file: no such file or directory",
        "s.yaml:2:9: bad-id: scenario id `Not Kebab` is not kebab-case (small letters, digits and single hyphens)",
        "s.yaml:3:29: unknown-key: no key `cudn` here\n  hint: did you mean `cudnn`?",
        "s.yaml:3:53: unknown-key: no package `flash-atn` in the vocabulary\n  hint: did you mean `flash-attn`?",
        "s.yaml:4:5: unknown-key: no key `reqest` here\n  hint: did you mean `request`?",
        "s.yaml:5:23: unknown-backend: no backend `CUDNN_ATN`\n  hint: did you mean `CUDNN_ATTN`?",
        "s.yaml:5:40: unknown-row: no row `explicit/abel`\n  hint: did you mean `explicit/able`?",
        "s.yaml:5:65: unknown-provider: no provider `fa5`\n  hint: did you mean `fa4`?",
        "s.yaml:5:80: wrong-type: `warnings`: wanted an integer or a list, got the string `x`",
        "s.yaml:5:83: unknown-key: no key `eror` here\n  hint: did you mean `error`?",
        "s.yaml:7:35: bad-value: `arch`: wanted a value such as `sm_90` on cuda, got `ampere`",
        "s.yaml:8:13: bad-value: `policy`: wanted one of fallback, strict, got `lax`",
        "s.yaml:9:10: wrong-type: `env`: wanted a mapping of variables, got a list",
        "s.yaml:10:21: bad-value: `error`: wanted one of refused, invalid, mutually_exclusive, got `none`",
        "s.yaml:10:36: unknown-code: no code `explicit/able:dtype.inn`\n  hint: did you mean `explicit/able:dtype.in`?",
        "t.yaml:2:5: missing-key: wanted the key `facts`, which is not there",
        "t.yaml:2:10: duplicate-scenario: scenario `two` stands twice\n  hint: the first is s.yaml:6:9",
        "t.yaml:2:23: empty-expect: wanted at least one thing that must come out",
        "t.yaml:3:5: wrong-type: wanted a mapping, got the number 3",
        "t.yaml:4:10: wrong-type: `id`: wanted a name in kebab-case, got the number 3",
        "t.yaml:6:12: wrong-type: `code`: wanted a string, got the number 3",
        "t.yaml:7:12: unknown-code: no row or condition `explicit/refus`\n  hint: did you mean `explicit/refuse`?",
        "t.yaml:8:34: bad-value: `never`: wanted one of wins, loses for `explicit/able`, got `holds`",
        "t.yaml:9:5: missing-key: wanted the key `because`, which is not there",
        "t.yaml:9:34: bad-value: `never`: wanted one of wins, loses, holds, fails, blamed, got `somtimes`",
        "t.yaml:10:12: unknown-code: no row or condition `call/pack:mask.i`\n  hint: did you mean `call/pack:mask.in`?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "s.yaml:1:1: wrong-type: wanted a mapping, got a list"),
        ("scenarios: {}\n", "s.yaml:1:12: wrong-type: `scenarios`: wanted a list, got a mapping"),
        ("description: x\n", "s.yaml:1:1: missing-key: wanted the key `scenarios`, which is not there"),
        ("scenarios: []\nunreachable: 3\n", "s.yaml:2:14: wrong-type: `unreachable`: wanted a list, got the number 3"),
        ("scenarios: [\n", None),
    ],
)
def test_what_is_no_file_of_scenarios(tmp_path: Path, text: str, said: str | None) -> None:
    """Is told at its place, and once."""
    told = problems(write(tmp_path, text))

    assert len(told) == 1
    assert said is None or told == [said]


def test_a_file_full_of_faults_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Past some hundred the rest is left out, and that is said."""
    codes = ", ".join(f"c{number}" for number in range(1000))
    many = "".join(scenario(f"blames: [{codes}]", name=f"n-{number}") for number in range(20))

    told = problems(write(tmp_path, f"scenarios:\n{many}"))

    assert told[0] == "s.yaml:1:1: too-many: there are more than 200 faults, and the rest is left out"
    assert len(told) < 500


def test_an_input_may_be_wrong_on_purpose(tmp_path: Path) -> None:
    """Where the error is expected it is the answer, and anywhere else a problem of the file."""
    config = "config: {default: {backend: FLASH}}, "

    assert one(tmp_path, "error: invalid, backend: null, warnings: 0", config) == []
    assert one(tmp_path, "error: mutually_exclusive", "config: {default: SAGE_ATTN}, backend: SAGE_ATTN, ") == []
    assert problems(write(tmp_path, "scenarios:\n" + scenario("error: refused", config))) == [
        "s.yaml:2:106: unknown-backend: no backend `FLASH`\n  hint: did you mean `FLASH_ATTN`?"
    ]


def test_an_input_that_is_valid_after_all(tmp_path: Path) -> None:
    """Is a difference like any other."""
    assert one(tmp_path, "error: invalid") == [Difference("error", "invalid", None)]


def test_names_are_those_of_the_rules_in_use(tmp_path: Path) -> None:
    """Rows of an overlay are known, and those that it replaces are not."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "platform_default.yaml").write_text(TINY, encoding="utf-8")
    names = Names.of(load_rules([tmp_path / "rules"]))

    assert "platform_default/torch-sdpa" not in names.codes
    assert "platform_default/large:dtype.in" in names.codes["platform_default/large"]  # an ability of what it uses
    assert names.codes["platform_default/last"] == ("platform_default/last:backend.excluded",)
    assert names.codes["explicit/refuse"] == ()


def test_tables_of_the_users_own_are_left_out(tmp_path: Path) -> None:
    """No decision walks them, so that no scenario could show their rows."""
    rows = "  - {id: a, when: {platform: cuda}, use: X, because: x}\n  - {id: b, use: Y, because: x}\n"
    (tmp_path / "mine.yaml").write_text(f"table: mine\nnew: true\nrows:\n{rows}", encoding="utf-8")
    rules = load_rules([tmp_path])

    assert "mine" in rules.tables
    assert [code for code in Names.of(rules).codes if code.startswith("mine/")] == []
    assert [code for code in Coverage(rules).items if code.startswith("mine/")] == []


# --- differing ---


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("backend: TORCH_SDPA, source: default, origin: flag, provider: null, transform: null", []),
        ("backend: null", [Difference("backend", None, "TORCH_SDPA")]),
        ("rule: explicit/refuse", [Difference("rule", "explicit/refuse", "explicit/able")]),
        ("provider: fa2", [Difference("provider", "fa2", None)]),
        ("transform: packs", [Difference("transform", "packs", None)]),
        ("error: refused", [Difference("error", "refused", None)]),
        ("warnings: 2", []),
        ("blames: ['explicit/able:platform.equals']", []),
        (
            "blames: ['explicit/able:dtype.in', 'call/pack:mask.in']",
            [
                Difference("blames", "explicit/able:dtype.in", [
                    "explicit/able:platform.equals", "explicit/able:arch.compare",
                    "explicit/able:packages.kernels.present", "explicit/able:arch.in",
                    "explicit/able:packages.flash-attn-4.compare", "explicit/able:packages.flash-attn.present",
                    "explicit/able:packages.flash-attn-3.present", "explicit/able:packages.flash-attn-4.present",
                    "chosen",
                ]),
                Difference("blames", "call/pack:mask.in", ["table not walked"]),
            ],
        ),
    ],
)  # fmt: skip
def test_what_differs(tmp_path: Path, expect: str, found: list[Difference]) -> None:
    """Every key that is expected is compared, and no other; of a code that is not blamed its row's fate is told."""
    assert one(tmp_path, expect, "backend: FLASH_ATTN_HUB, ") == found


def test_warnings_by_number_or_by_text() -> None:
    """All of them, in their order."""
    decision = decide(cuda("sm_100", HUB), {"head_dim": 128}, backend="FLASH_ATTN_HUB")
    text = decision.warnings[0]
    trace = decision.explain()

    assert differences({"warnings": 1}, decision, trace) == []
    assert differences({"warnings": [text]}, decision, trace) == []
    assert differences({"warnings": 0}, decision, trace) == [Difference("warnings", 0, [text])]
    assert differences({"warnings": []}, decision, trace) == [Difference("warnings", [], [text])]


@pytest.mark.parametrize(
    ("difference", "lines"),
    [
        (Difference("backend", None, "A"), ["  backend: wanted null", "           got    A"]),
        (Difference("warnings", 0, ["a", "b"]),
         ["  warnings: wanted 0", "            got    2", "                   a", "                   b"]),
        (Difference("warnings", ["a"], []), ["  warnings: wanted a", "            got    none"]),
        (Difference("warnings", ["a", "b"], []),
         ["  warnings: wanted a", "                   b", "            got    none"]),
    ],
)  # fmt: skip
def test_a_difference_in_words(difference: Difference, lines: list[str]) -> None:
    """Wanted, and below it got; lists by their items."""
    assert [*differs(difference)] == lines


def test_a_failure_in_words_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Whatever stands in the file, and in ASCII where the terminal has no more."""
    text = f'scenarios:\n  - {{id: a, about: "x\\e[31m→", facts: {CPU_TEXT}, expect: {{backend: CUDNN_ATTN}}}}\n'
    outcome = run_scenarios(read(tmp_path, text), shipped()).outcomes[0]

    assert failure(outcome, Look()).startswith("FAILED s.yaml:2:5 a: x\\x1b[31m→\n  backend: wanted CUDNN_ATTN\n")
    assert failure(outcome, Look(ascii=True)).isascii()


# --- counting ---


@pytest.fixture
def tiny(tmp_path: Path) -> RuleSet:
    """Give rules with a table of two rows."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "platform_default.yaml").write_text(TINY, encoding="utf-8")
    return load_rules([folder])


def counted(rules: RuleSet, *asked: tuple[Mapping[str, object], Mapping[str, object]]) -> Coverage:
    """Decide for each machine and request, and count what that shows."""
    coverage = Coverage(rules)
    for number, (facts, request) in enumerate(asked):
        coverage.add(decide(facts, request, rules=rules).explain(), f"s-{number}")
    return coverage


def counts(coverage: Coverage, code: str) -> dict[str, int]:
    """Give what an item did."""
    return dict(coverage.items[f"platform_default/{code}"].counts)


def test_rows_win_and_lose(tiny: RuleSet) -> None:
    """A row that is not reached counts as neither; one that nothing keeps from firing need not lose."""
    large = (cuda("sm_90"), {"head_dim": 64, "compile": False})
    coverage = counted(tiny, large, large, (CPU, {}))

    assert counts(coverage, "large") == {"wins": 2, "loses": 1}
    assert counts(coverage, "last") == {"wins": 1}
    assert coverage.items["platform_default/large"].first == {"wins": "s-0", "loses": "s-2"}
    assert coverage.items["platform_default/large"].wanted == ("wins", "loses")
    assert coverage.items["platform_default/last"].wanted == ("wins",)
    assert coverage.items["explicit/able"].wanted == ("wins", "loses")  # whatever is named may have needs


def test_conditions_hold_fail_and_are_blamed(tiny: RuleSet) -> None:
    """Each as it is written, also below `any` and `not`; one whose fact is not known is open."""
    coverage = counted(
        tiny,
        (cuda("sm_90"), {"head_dim": 64, "compile": False}),
        (cuda("sm_90"), {"head_dim": 320, "compile": True}),
        (cuda("sm_90"), {"head_dim": 128}),
        (CPU, {"compile": False}),
    )

    assert counts(coverage, "large:platform.equals") == {"holds": 3, "fails": 1, "blamed": 1}
    assert counts(coverage, "large:head_dim.equals") == {"holds": 1, "fails": 2, "open": 1, "blamed": 2}
    assert counts(coverage, "large:head_dim.equals#2") == {"fails": 3, "open": 1, "blamed": 2}
    assert counts(coverage, "large:head_dim.min") == {"holds": 1, "fails": 2, "open": 1, "blamed": 2}
    assert counts(coverage, "large:compile.equals") == {"holds": 1, "fails": 2, "open": 1, "blamed": 2}


def test_abilities_are_counted_once_for_all_rows(tiny: RuleSet) -> None:
    """By the backend that they belong to, not by the row that asks."""
    coverage = counted(tiny, (cuda("sm_90"), {"head_dim": 320, "compile": False}))
    item = coverage.items["backends/CUDNN_ATTN:head_dim.max"]

    assert dict(item.counts) == {"fails": 1, "blamed": 1}
    assert item.place.file == "rules/backends.yaml"
    assert coverage.items["backends/CUDNN_ATTN:cudnn.present"].wanted == ("holds", "fails", "blamed")


def test_builds_and_warnings_are_counted(rules: RuleSet) -> None:
    """Abilities of providers, standing warnings, and what is unverified about a backend that was taken."""
    coverage = counted(
        rules, (cuda("sm_110", {**FI, **FA2}), {"head_dim": 128}), (cuda("sm_90", FA2), {"head_dim": 64})
    )
    coverage.add(decide(cuda("sm_100", HUB), {"head_dim": 64}, backend="FLASH_ATTN_HUB").explain(), "hub")

    def did(code: str) -> dict[str, int]:
        return dict(coverage.items[code].counts)

    assert did("providers/fa2:packages.flash-attn.present") == {"holds": 1}
    assert did("providers/fa4:packages.flash-attn-4.present") == {"fails": 1, "blamed": 1}
    assert did("warnings/blackwell-untested:arch.in") == {"holds": 2, "fails": 1}
    assert did("backends/FLASH_ATTN_HUB/unverified-1:arch.in") == {"holds": 1}
    assert coverage.items["warnings/blackwell-untested:arch.in"].wanted == ("holds", "fails")


def test_a_decision_without_a_walk_shows_nothing(rules: RuleSet) -> None:
    """As when the input is not valid."""
    coverage = Coverage(rules)

    coverage.add(Trace(), "s")

    assert coverage.share("row").shown == 0
    assert coverage.share("condition").shown == 0


def test_shares_of_a_small_table(tiny: RuleSet) -> None:
    """Of three points of rows and fifteen of conditions; what is unreachable is asked for by nobody."""

    def mine(coverage: Coverage, kind: str) -> list[Point]:
        points = coverage.points("row") if kind == "row" else coverage.points("condition")
        return [point for point in points if point.code.startswith("platform_default/")]

    coverage = counted(tiny, (cuda("sm_90"), {"head_dim": 64, "compile": False}), (CPU, {}))
    missing = [point for point in coverage.missing() if point.code.startswith("platform_default/")]
    less = Coverage(tiny, [Point("platform_default/large", "wins")])

    assert len(mine(coverage, "row")) == 3
    assert len(mine(coverage, "condition")) == 15
    assert missing == [
        Point("platform_default/large:head_dim.equals", "fails"),
        Point("platform_default/large:head_dim.min", "holds"),
        Point("platform_default/large:head_dim.equals#2", "holds"),
        Point("platform_default/large:compile.equals", "holds"),
    ]
    assert mine(less, "row") == [Point("platform_default/large", "loses"), Point("platform_default/last", "wins")]
    assert less.share("row").total == coverage.share("row").total - 1


@pytest.mark.parametrize(
    ("share", "said", "below"),
    [
        (Share(0, 0), "100", False),
        (Share(2, 3), "66.6", True),
        (Share(1999, 2000), "99.9", True),
        (Share(5, 5), "100", False),
    ],
)
def test_a_share_is_never_rounded_up(share: Share, said: str, below: bool) -> None:
    """So that 100 means all."""
    assert percent(share) == said
    assert share.below(100) is below


# --- what is said to be unreachable ---


def ran(folder: Path, unreachable: str, rules: RuleSet | None = None) -> Run:
    """Run a scenario on the CPU beside something that is said to be unreachable."""
    text = f"scenarios:\n{scenario('backend: TORCH_SDPA')}unreachable: [{{{unreachable}, because: x}}]\n"
    return run_scenarios(read(folder, text, rules), rules or shipped())


def test_what_is_unreachable_is_not_asked_for(tmp_path: Path) -> None:
    """And counts neither as shown nor as missing."""
    run = ran(tmp_path, "code: call/cannot, never: wins")

    assert run.passed
    assert Point("call/cannot", "wins") not in run.coverage.missing()


def test_what_is_shown_all_the_same_fails(tmp_path: Path) -> None:
    """The first scenario that shows it is named."""
    run = ran(tmp_path, "code: 'platform_default/hopper-flash-attn:platform.equals', never: blamed")

    assert run.failed == []
    assert not run.passed
    assert [(one.unreachable.point.does, one.scenario) for one in run.shown] == [("blamed", "one")]
