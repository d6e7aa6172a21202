"""`attention-selector test`: exit statuses, what is written, coverage, JUnit."""

from __future__ import annotations

import json
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.selector.command.runs import Ran, ask, assert_bad_input, process

CPU = "{platform: cpu, arch: null, cudnn: null, packages: {}}"
GOOD = f"  - {{id: good, facts: {CPU}, expect: {{backend: TORCH_SDPA, warnings: 0}}}}\n"
BAD = f"""\
  - id: bad
    about: The CPU gets cuDNN.
    facts: {CPU}
    expect: {{backend: CUDNN_ATTN, log: null, blames: ["platform_default/blackwell-cudnn:cudnn.compare"]}}
"""
NEVER = "unreachable: [{code: platform_default/torch-sdpa, never: wins, because: Nobody wants it.}]\n"
MINE = """\
table: platform_default
edits:
  - {id: mine, before: blackwell-datacenter-trtllm, when: {platform: cpu}, use: TORCH_SDPA, because: It is ours.}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give a file with a scenario that passes."""
    return write(tmp_path / "good.yaml", GOOD)


def write(path: Path, *texts: str) -> Path:
    """Write a file of scenarios."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("scenarios:\n" + "".join(texts), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """Run `test` in this process."""
    return ask(capsys, "test", *map(str, arguments))


# --- status and words ---


def test_all_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines: how many passed, and how much of the rules that showed."""
    ran = run(capsys, file)

    first, second = ran.out.splitlines()
    assert first == "1 scenario: 1 passed, 0 failed"
    assert second.startswith("coverage: rows ")
    assert (ran.status, ran.err) == (0, "")


def test_a_failure_is_told_with_its_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it stands, each field with wanted and got, and the tree of the decision; the others are still run."""
    monkeypatch.setenv("COLUMNS", "100")
    path = write(tmp_path / "s.yaml", BAD, GOOD)

    ran = run(capsys, path)

    assert ran.out.startswith(
        f"FAILED {path}:2:5 bad: The CPU gets cuDNN.\n"
        "  backend: wanted CUDNN_ATTN\n"
        "           got    TORCH_SDPA\n"
        "  log: wanted null\n"
        "       got    Defaulting to diffusion attention backend SDPA\n"
        "Defaulting to diffusion attention backend SDPA\n"
        "├ decided by: platform_default/torch-sdpa\n"
    )
    assert "│ ├ ✗ blackwell-cudnn → use CUDNN_ATTN\n│ │   platform: wanted cuda, got cpu" in ran.out
    assert "2 scenarios: 1 passed, 1 failed\n" in ran.out
    assert (ran.status, ran.err) == (1, "")


def test_an_input_that_is_wrong_on_purpose_fails_without_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no walk to show; the answer says what is wrong."""
    text = f"  - {{id: a, facts: {CPU}, config: {{default: FLASH}}, expect: {{error: mutually_exclusive}}}}\n"

    ran = run(capsys, write(tmp_path / "s.yaml", text))

    assert "  error: wanted mutually_exclusive\n         got    invalid\nInvalid: no backend `FLASH`" in ran.out
    assert ran.status == 1


def test_what_is_said_to_be_unreachable_and_shown_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its place, and the scenario that shows it."""
    path = write(tmp_path / "s.yaml", GOOD, NEVER)

    ran = run(capsys, path)

    assert ran.out.startswith(
        f"FAILED {path}:3:15 unreachable: platform_default/torch-sdpa wins in good, which is said never to happen\n"
        "1 scenario: 1 passed, 0 failed\n"
    )
    assert ran.out.endswith("; 1 said to be unreachable\n")
    assert ran.status == 1


def test_what_is_wrong_with_files_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, and nothing is run."""
    one = write(tmp_path / "a.yaml", "  - {id: a, facts: {}, expect: {rule: explicit/abel}}\n")
    other = write(tmp_path / "b.yaml", f"  - {{id: a, facts: {CPU}, expect: {{backend: null}}}}\n")

    ran = run(capsys, tmp_path, "--junit", tmp_path / "junit.xml")

    assert ran.err == (
        f"{one}:2:39: unknown-row: no row `explicit/abel`\n  hint: did you mean `explicit/able`?\n"
        f"{other}:2:10: duplicate-scenario: scenario `a` stands twice\n  hint: the first is {one}:2:10\n"
    )
    assert (ran.status, ran.out) == (2, "")
    assert not (tmp_path / "junit.xml").exists()


@pytest.mark.parametrize(
    "arguments",
    [["none.yaml"], ["--rules", "none"], ["--min-coverage", "101"], ["--min-coverage", "nan"], ["--min-coverage", "x"],
     ["--format", "xml"], ["--covrage"], ["\0"]],
)  # fmt: skip
def test_other_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and a sentence on standard error."""
    ran = run(capsys, *arguments)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.strip()


def test_a_percentage_out_of_range(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is told as wanted and got."""
    ran = run(capsys, file, "--min-coverage", "101")

    assert (
        ran.err
        == "usage: `--min-coverage`: wanted a number from 0 to 100, got 101\n  hint: attention-selector --help\n"
    )


def test_hostile_files_cost_little(tmp_path: Path) -> None:
    """A file as large as any may be, full of names that nobody knows."""
    codes = ", ".join(f"platform_default/blackwell-cudn:{number}" for number in range(20_000))
    path = write(tmp_path / "s.yaml", f"  - {{id: a, facts: {CPU}, expect: {{blames: [{codes}]}}}}\n")

    ran = process("test", str(path))

    assert_bad_input(ran)


def test_rules_without_any_scenarios(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to run is a mistake and no success."""
    monkeypatch.setattr("selector.scenario.files._shipped", lambda: iter(()))

    ran = run(capsys)

    told = "rules: no-scenarios: no scenario files stand beside the rules\n  hint: name a file or a folder\n"
    assert (ran.status, ran.err) == (2, told)


def test_a_folder_is_no_table_of_scenarios(tmp_path: Path) -> None:
    """An empty one is refused in a process of its own, without a traceback."""
    assert_bad_input(process("test", str(tmp_path)))


# --- which scenarios ---


def test_the_shipped_scenarios_run_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name."""
    ran = run(capsys, "--format", "json")

    told = json.loads(ran.out)["scenarios"]
    assert {one["file"].rpartition("/")[0] for one in told} == {"rules/tests"}
    assert len(told) > 400


@pytest.mark.parametrize("by_variable", [False, True])
def test_scenarios_beside_rules_run_by_default(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    by_variable: bool,
) -> None:
    """With the rules that they stand beside, and in place of the shipped ones."""
    rules = tmp_path / "mine"
    write(rules / "tests" / "s.yaml", GOOD)
    (rules / "mine.yaml").write_text(MINE.replace("cpu", "musa"), encoding="utf-8")
    if by_variable:
        monkeypatch.setenv("ATTENTION_SELECTOR_RULES", str(rules))

    ran = run(capsys, "--format", "json", *([] if by_variable else ["--rules", rules]))

    told = json.loads(ran.out)["scenarios"]
    assert {one["file"] for one in told} == {str(rules / "tests" / "s.yaml")}
    assert ran.status == 0


def test_scenarios_run_against_the_rules_that_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An overlay that changes the choice fails them."""
    path = write(tmp_path / "s.yaml", GOOD.replace("warnings: 0", "rule: platform_default/torch-sdpa"))
    rules = tmp_path / "mine"
    rules.mkdir()
    (rules / "mine.yaml").write_text(MINE, encoding="utf-8")

    ran = run(capsys, path, "--rules", rules)

    assert "  rule: wanted platform_default/torch-sdpa\n        got    platform_default/mine\n" in ran.out
    assert (run(capsys, path).status, ran.status) == (0, 1)


# --- coverage ---


def test_too_little_is_a_failure(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not shown is named with its place, and the share that is wanted stands last."""
    ran = run(capsys, file, "--min-coverage", "99.5")

    lines = ran.out.splitlines()
    assert lines[0] == "1 scenario: 1 passed, 0 failed"
    assert "  never wins: platform_default/hopper-flash-attn (rules/platform_default.yaml" in ran.out
    assert "  never is blamed: call/pack:mask.in (rules/call.yaml:" in ran.out
    assert lines[-1].startswith("FAILED coverage: wanted at least 99.5 %, got ")
    assert ran.status == 1


def test_enough_is_none(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing more is said."""
    ran = run(capsys, file, "--min-coverage", "1")

    assert len(ran.out.splitlines()) == 2
    assert ran.status == 0


def test_every_row_and_condition(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What each did and how often, conditions below their row, abilities and warnings after the tables."""
    ran = run(capsys, file, "--coverage")

    assert "platform_default/torch-sdpa: wins 1\n" in ran.out
    assert (
        "platform_default/hopper-flash-attn: never wins, loses 1\n"
        "  platform.equals: never holds, fails 1, is blamed 1\n"
        "  arch.in: never holds, fails 1, is blamed 1\n"
    ) in ran.out
    assert "backends/CUDNN_ATTN\n  platform.equals: never holds, fails 1, is blamed 1\n" in ran.out
    assert "  mask_free.equals: never holds, never fails, is blamed 1, open 1\n" in ran.out
    assert "warnings/blackwell-untested\n" in ran.out
    assert ran.status == 0


def test_what_is_unreachable_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the list of everything."""
    path = write(tmp_path / "s.yaml", GOOD, NEVER.replace("platform_default/torch-sdpa", "call/cannot"))

    ran = run(capsys, path, "--coverage")

    assert "call/cannot: never wins (unreachable)\n" in ran.out
    assert "never wins: call/cannot" not in ran.out


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it; a failure brings its answer and its trace."""
    path = write(tmp_path / "s.yaml", GOOD, BAD, NEVER)

    ran = run(capsys, path, "--format", "json", "--coverage", "--min-coverage", "50")

    told = json.loads(ran.out)
    good, bad = told["scenarios"]
    assert good == {"id": "good", "about": None, "file": str(path), "line": 2, "passed": True}
    assert (bad["passed"], bad["answer"]["backend"]) == (False, "TORCH_SDPA")
    assert bad["differs"][0] == {"field": "backend", "wanted": "CUDNN_ATTN", "got": "TORCH_SDPA"}
    assert [walk["table"] for walk in bad["trace"]] == ["role_fallback", "platform_default"]
    assert told["unreachable_shown"] == [{"code": "platform_default/torch-sdpa", "never": "wins", "scenario": "good"}]
    assert told["passed"] is told["coverage"]["enough"] is False
    assert (told["coverage"]["wanted"], told["coverage"]["rows"]["total"] > 100) == (50, True)
    assert {"code": "call/pack", "never": "wins"} in told["coverage"]["missing"]
    (item,) = [
        one for one in told["items"] if one["code"] == "platform_default/blackwell-datacenter-trtllm:mask_free.equals"
    ]
    assert item["counts"] == {"holds": 0, "fails": 0, "blamed": 2, "open": 2}
    assert ran.status == 1


# --- JUnit ---


def test_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A suite for each file, a case for each scenario, and a suite for what was to be shown."""
    good, bad = write(tmp_path / "a.yaml", GOOD), write(tmp_path / "b.yaml", BAD, NEVER)

    ran = run(capsys, good, bad, "--junit", tmp_path / "junit.xml", "--min-coverage", "50")

    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - written by us
    suites = {suite.get("name"): suite for suite in root}
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "4", "3", "0")
    assert list(suites) == [str(good), str(bad), "coverage"]
    assert (suites[str(bad)].get("tests"), suites[str(bad)].get("failures")) == ("1", "1")
    assert (cases["good"].get("classname"), cases["good"].get("line"), len(cases["good"])) == ("a", "2", 0)
    (failure,) = cases["bad"]
    assert failure.get("message") == "differs: backend, log"
    assert "wanted CUDNN_ATTN" in str(failure.text)
    assert "blackwell-cudnn" in str(failure.text)
    assert list(cases)[2:] == ["platform_default/torch-sdpa never wins", "at least 50 %"]
    assert all(len(case) == 1 for case in [*cases.values()][1:])
    assert ran.status == 1


def test_junit_of_a_success(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a failure anywhere; the file is as readable as any other that is written here."""
    (tmp_path / "other").write_text("", encoding="utf-8")
    text = NEVER.replace("platform_default/torch-sdpa", "call/cannot")
    never = write(tmp_path / "n.yaml", GOOD.replace("good", "other"), text)

    ran = run(capsys, file, never, "--junit", tmp_path / "junit.xml", "--min-coverage", "0")

    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - written by us
    assert (root.get("tests"), root.get("failures")) == ("4", "0")
    assert list(root.iter("failure")) == []
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("junit.xml", "other")}
    assert len(modes) == 1
    assert ran.status == 0


def test_junit_holds_whatever_stands_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Signs of XML, and characters that it cannot hold."""
    path = tmp_path / "s.json"
    expect = {"backend": "CUDNN_ATTN", "log": "a\0\ud800<&]]>\"'"}
    facts = {"platform": "cpu", "packages": {}}
    scenario = {"id": "a", "about": "\x1b<b>&\ufffe", "facts": facts, "expect": expect}
    path.write_text(json.dumps({"scenarios": [scenario]}), encoding="utf-8")

    ran = run(capsys, path, "--junit", tmp_path / "junit.xml")

    (failure,) = ET.parse(tmp_path / "junit.xml").getroot().iter("failure")  # noqa: S314 - written by us
    assert "\\x1b<b>&\\ufffe" in str(failure.text)
    assert "\\x00\\ud800<&]]>\"'" in str(failure.text)
    assert ran.status == 1


def test_junit_is_replaced_whole(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stood there before goes, and nothing is left beside it."""
    target = tmp_path / "out" / "junit.xml"
    target.parent.mkdir()
    target.write_text("before", encoding="utf-8")

    assert run(capsys, file, "--junit", target).status == 0

    assert target.read_text(encoding="utf-8").startswith("<?xml")
    assert [path.name for path in target.parent.iterdir()] == ["junit.xml"]


@pytest.mark.parametrize("name", ["none/junit.xml", "folder", "a\0b"])
def test_junit_that_cannot_be_written(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Is told with its reason, and what stood there stays."""
    (tmp_path / "folder").mkdir()

    ran = run(capsys, file, "--junit", tmp_path / name)

    assert ran.status == 2
    assert "unwritable: cannot write the file: " in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "good.yaml"]
