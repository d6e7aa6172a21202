"""Scenarios that are made by themselves: right, complete as far as can be, and the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector import data
from selector.rules.conditions import Both
from selector.rules.yaml_text import read_yaml
from selector.ruleset import RuleSet, load_rules, shipped
from selector.scenario.files import ScenarioPath
from selector.scenario.generating import Generated, generate, written
from selector.scenario.reading import read_scenarios
from selector.scenario.running import run_scenarios
from tests.selector.command.runs import ask
from tests.selector.rules.folders import file

FILE = data.folder("rules") / "tests" / "generated.yaml"
NOT_FOUND = (
    "provider/flashinfer-named-fa3: backend",  # these three ask for a config that belongs to the backend alone
    "provider/flashinfer-named-cute-dsl: backend",
    "provider/flashinfer-mixed-types",
    "call/trtllm-log-sum-exp: backend",  # as does this one,
    "call/trtllm-log-sum-exp: quant.dtype_qk-skip_softmax",  # and here a config that asks for one of the two
    "call/sage-3-gqa",  # and these two are said to be unreachable in `rules/tests/call.yaml`
    "call/cannot",
)


@pytest.fixture(scope="module")
def made() -> Generated:
    """Give what is made for the shipped rules."""
    return generate(shipped())


def failing(made: Generated, rules: RuleSet, folder: Path) -> list[str]:
    """Run what was made, through a file; the ids of those that fail."""
    path = folder / "generated.yaml"
    path.write_text(written(made, rules, path), encoding="utf-8")
    run = run_scenarios(read_scenarios([ScenarioPath("g", path)], rules), rules)
    return [outcome.scenario.id for outcome in run.failed]


def test_the_committed_file_is_what_is_made_now(made: Generated) -> None:
    """`make generate` writes it again after an edit of the rules."""
    assert FILE.read_text(encoding="utf-8") == written(made, shipped(), FILE)


def test_every_row_has_a_situation_that_it_wins_and_one_beside_it_for_each_condition(made: Generated) -> None:
    """But for those that are named as not found."""
    assert made.missed == NOT_FOUND
    ids = {str(one["id"]) for one in made.scenarios}
    for table in shipped().tables.values():
        for row in table.rows:
            if row.name in NOT_FOUND:
                continue
            head = f"{row.table}-{row.id}".replace("_", "-")
            count = len(row.when.parts) if isinstance(row.when, Both) else 1
            beside = [f"{head}-without-{number + 1}" for number in range(count)]
            missed = sum(name.startswith(f"{row.name}: ") for name in NOT_FOUND)
            assert f"{head}-wins" in ids
            assert len([name for name in beside if name in ids]) == count - missed


def test_all_of_them_pass(made: Generated, tmp_path: Path) -> None:
    """Read from their file and run like any other."""
    assert failing(made, shipped(), tmp_path) == []


def test_an_edit_shows_in_what_is_made(tmp_path: Path) -> None:
    """A new row brings scenarios, and what no longer holds fails in the old ones."""
    folder = tmp_path / "mine"
    folder.mkdir()
    row = "id: mine, before: hopper-flash-attn, when: {arch: sm_90, head_dim: 64}, use: TORCH_SDPA, because: x"
    file(folder, "e.yaml", f"table: platform_default\nedits: [{{{row}}}]\n")
    rules = load_rules([folder])

    made = generate(rules)

    ids = [str(one["id"]) for one in made.scenarios]
    assert [name for name in ids if "-mine-" in name] == [
        "platform-default-mine-wins", "platform-default-mine-without-1", "platform-default-mine-without-2",
    ]  # fmt: skip
    assert failing(made, rules, tmp_path) == []


def test_the_command_writes_the_file_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Or nothing; and tells what it found nothing for."""
    path = tmp_path / "g.yaml"

    ran = ask(capsys, "test", "--generate", str(path))

    assert (ran.status, ran.err) == (0, "")
    count = len(generate(shipped()).scenarios)
    not_found = [f"no situation found for {name}" for name in NOT_FOUND]
    assert ran.out.splitlines() == [f"{path}: {count} scenarios", *not_found]
    assert isinstance(read_yaml(path.read_text(encoding="utf-8"), "g").plain(), dict)
    away = ask(capsys, "test", "--generate", str(tmp_path / "nowhere" / "g.yaml"))
    assert (away.status, away.out) == (2, "")
    assert away.err.endswith("g.yaml: unwritable: cannot write the file: no such file or directory\n")
