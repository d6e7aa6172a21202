"""Newer rules for a selector that is serving: taken whole, refused whole, or run in the shadow first."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from selector.decision import Decision
from selector.reloading import Reload, load_settled, stamp
from selector.rules.problems import ConfigError, TableError
from selector.ruleset import load_rules, shipped
from selector.selecting import Selector
from selector.watching import Watcher
from tests.selector.conftest import FI, cuda
from tests.selector.rules.folders import file

BLACKWELL = cuda("sm_120", FI)
OUT = "table: platform_default\nedits: [{id: blackwell-cudnn, disable: true, because: x}]\n"
BROKEN = OUT.replace("blackwell-cudnn", "blackwell-cudn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a rule set that decides as the shipped one does."""
    made = tmp_path / "mine"
    made.mkdir()
    return file(made, "roles.yaml", "roles: {mine: cross}\n")


def on(folder: Path, config: Mapping[str, object] | None = None) -> Selector:
    """Give a selector with the rules of a folder."""
    return Selector(rules=folder, facts=BLACKWELL, environment={}, config=config)


def answer(selector: Selector) -> tuple[str | None, str]:
    """Give what runs, and the digest that it was decided with."""
    decision = selector.decide("self", head_dim=128)
    return decision.backend, decision.digest


# --- swapped, unchanged, refused ---


def test_newer_rules_serve_from_the_next_decision_on(folder: Path) -> None:
    """And each decision names the set that it was made with."""
    selector = on(folder)
    before = answer(selector)
    file(folder, "edits.yaml", OUT)

    assert answer(selector) == before
    result = selector.reload()

    assert before[0] == "CUDNN_ATTN"
    assert (result.outcome, result.digest, result.problems) == ("swapped", load_rules([folder]).digest, ())
    assert answer(selector) == ("TORCH_SDPA", result.digest)


def test_what_has_not_changed_serves_on(folder: Path) -> None:
    """Comments are no change."""
    selector = on(folder)
    serving = selector.serving
    file(folder, "roles.yaml", "# mine\nroles: {mine: cross}\n")

    assert selector.reload().outcome == "unchanged"
    assert selector.serving is serving


def test_a_broken_set_is_refused_whole_while_the_old_one_serves(folder: Path) -> None:
    """With its problems; decisions say so, and since when."""
    selector = on(folder)
    before = answer(selector)
    file(folder, "edits.yaml", BROKEN)
    file(folder, "roles.yaml", "roles: {mine: self}\n")

    result = selector.reload()

    assert (result.outcome, result.digest) == ("refused", before[1])
    assert [problem.code for problem in result.problems] == ["unknown-row"]
    assert answer(selector) == before
    decision = selector.decide("mine")
    assert decision.role_category == "cross"
    assert decision.outdated is not None
    assert (decision.outdated.problem, decision.outdated.problems) == (str(result.problems[0]), 1)
    assert Decision.from_json(decision.to_json()).outdated == decision.outdated
    assert str(result) == (
        f"rules {before[1][:12]} serve on: the newer ones are refused\n{folder}/edits.yaml:2:9: unknown-row: no row "
        "`blackwell-cudn` in table `platform_default`\n  hint: did you mean `blackwell-cudnn`?"
    )


def test_it_says_since_when_the_first_refusal_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the last; and no longer once newer rules serve, or the broken ones are taken back."""
    clock = iter(["one", "two", "three"])
    monkeypatch.setattr("selector.serving._now", lambda: next(clock))
    selector = on(folder)
    for broken in (BROKEN, BROKEN.replace("cudn", "cud"), "table: ["):
        file(folder, "edits.yaml", broken)
        selector.reload()
    outdated = selector.decide().outdated
    assert outdated is not None
    assert outdated.since == "one"
    assert "yaml-syntax" in outdated.problem

    (folder / "edits.yaml").unlink()
    assert selector.reload().outcome == "unchanged"
    assert selector.decide().outdated is None

    file(folder, "edits.yaml", BROKEN)
    selector.reload()
    file(folder, "edits.yaml", OUT)
    assert selector.reload().outcome == "swapped"
    assert selector.decide().outdated is None


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("backends.yaml", "backends: {FLASH_ATTN_HUB: null}", "unknown-backend"),
        ("backends.yaml", "backends: {MINE: null}", "unknown-entry"),
        ("vocabulary.yaml", "facts: {platform: {type: string, group: machine, values: [cpu], about: x}}", "bad-value"),
    ],
)
def test_rules_that_do_not_suit_config_or_facts_are_refused(folder: Path, name: str, text: str, code: str) -> None:
    """A backend that the config names must still be there, and the machine's facts must still be facts."""
    file(folder, "backends.yaml", "backends: {MINE: {about: x}}")
    selector = on(folder, config={"default": "MINE"})
    assert answer(selector)[0] == "MINE"
    file(folder, name, text)

    result = selector.reload()

    assert result.outcome == "refused"
    assert code in {problem.code for problem in result.problems}
    assert answer(selector)[0] == "MINE"


def test_a_config_that_names_a_backend_which_is_gone(folder: Path) -> None:
    """Is the reason of the refusal, in the words of a config that is wrong."""
    file(folder, "backends.yaml", "backends: {MINE: {about: x}}")
    selector = on(folder, config={"default": "MINE"})
    (folder / "backends.yaml").unlink()

    (problem,) = selector.reload().problems

    with pytest.raises(ConfigError) as caught:
        on(folder, config={"default": "MINE"})
    assert caught.value.problems == (problem,)


def test_a_folder_that_is_gone_is_refused(folder: Path) -> None:
    """As a folder that is empty."""
    selector = on(folder)
    (folder / "roles.yaml").unlink()

    assert [problem.code for problem in selector.reload().problems] == ["no-rules"]
    folder.rmdir()
    assert [problem.code for problem in selector.reload().problems] == ["unreadable"]
    assert answer(selector)[0] == "CUDNN_ATTN"


def test_a_selector_of_a_rule_set_has_nothing_to_reload() -> None:
    """It says so; one of the shipped rules alone reads those again."""
    with pytest.raises(ValueError, match="wanted a selector whose rules are read from files"):
        Selector(rules=shipped(), facts=BLACKWELL).reload()
    assert Selector(facts=BLACKWELL, environment={}).reload().outcome == "unchanged"


def test_packages_that_newer_rules_ask_about_are_looked_for(folder: Path) -> None:
    """On this machine, without asking again for those that were known."""
    selector = Selector(rules=folder, environment={})
    file(folder, "vocabulary.yaml", "packages: {yaml: {distributions: [PyYAML]}, gone: {distributions: [no-such-one]}}")

    assert selector.reload().outcome == "swapped"

    machine = selector.machine
    assert machine["packages.yaml"] is not None
    assert machine["packages.gone"] is None
    assert selector.decide().origins["packages.yaml"] == "package metadata"


def test_what_was_planned_is_planned_anew_and_what_was_bound_is_kept(folder: Path) -> None:
    """Plans are those of one set; a kernel is the same whoever chose it."""
    selector = on(folder)
    selector.serving.plans["x"], selector.serving.kernels["y"] = 1, 2
    file(folder, "edits.yaml", OUT)

    selector.reload()

    assert (selector.serving.plans, selector.serving.kernels) == ({}, {"y": 2})


def test_a_reload_is_logged(folder: Path) -> None:
    """A refusal as a warning, with every problem."""
    selector = on(folder)
    file(folder, "edits.yaml", BROKEN)
    with structlog.testing.capture_logs() as lines:
        selector.reload()
        file(folder, "edits.yaml", OUT)
        selector.reload()

    told: list[MutableMapping[str, Any]] = list(lines)
    assert [line["log_level"] for line in told] == ["warning", "info"]
    assert "unknown-row" in told[0]["problems"][0]


def test_a_copy_of_a_selector_decides_alike(folder: Path) -> None:
    """Deep, or through pickle; with a lock of its own."""
    selector = on(folder)

    for other in (copy.deepcopy(selector), copy.copy(selector)):
        assert answer(other) == answer(selector)
        assert other.reload().outcome == "unchanged"


# --- the shadow ---


def test_newer_rules_decide_in_the_shadow_first(folder: Path) -> None:
    """Both decide, differences are counted by the rows that decided, and then they are switched or dropped."""
    selector = on(folder)
    file(folder, "edits.yaml", OUT)
    result = selector.reload(shadow=True)
    assert (result.outcome, result.newer) == ("shadowed", load_rules([folder]).digest)

    for role in ("self", "cross", "self"):
        assert selector.decide(role, head_dim=128).backend == "CUDNN_ATTN"
    selector.decide("self", head_dim=7)

    shadow = selector.shadow
    assert shadow is not None
    assert (shadow.decided, shadow.differing) == (4, 3)
    assert dict(shadow.kinds) == {("platform_default/blackwell-cudnn", "platform_default/torch-sdpa"): 3}
    assert str(shadow) == (
        "3 of 4 decisions differ\n  3 × CUDNN_ATTN (platform_default/blackwell-cudnn) → TORCH_SDPA "
        "(platform_default/torch-sdpa), such as for self"
    )
    assert selector.switch().outcome == "swapped"
    assert selector.shadow is None
    assert answer(selector) == ("TORCH_SDPA", result.newer)


def test_the_shadow_is_dropped(folder: Path) -> None:
    """And nothing has changed."""
    selector = on(folder)
    file(folder, "edits.yaml", OUT)
    selector.reload(shadow=True)

    selector.drop()

    assert selector.shadow is None
    assert answer(selector)[0] == "CUDNN_ATTN"
    with pytest.raises(ValueError, match="wanted newer rules in the shadow, got none"):
        selector.switch()


def test_a_broken_set_does_not_come_into_the_shadow(folder: Path) -> None:
    """One that is there stays there."""
    selector = on(folder)
    file(folder, "edits.yaml", OUT)
    selector.reload(shadow=True)
    file(folder, "edits.yaml", BROKEN)

    assert selector.reload(shadow=True).outcome == "refused"
    assert selector.shadow is not None
    assert selector.shadow.serving.rules.digest != selector.rules.digest


# --- files that change while they are read ---


def test_a_set_is_read_again_when_its_files_change_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are at rest; never half old and half new."""
    reads: list[int] = []

    def load(folders: list[Path]) -> object:
        reads.append(1)
        rules = load_rules(folders)
        if len(reads) < 3:
            file(folder, "roles.yaml", f"roles: {{mine: cross, more{len(reads)}: self}}\n")
        return rules

    monkeypatch.setattr("selector.reloading.load_rules", load)

    assert load_settled([folder]).digest == load_rules([folder]).digest
    assert len(reads) == 3


def test_files_that_never_rest_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reason of their own."""
    count = iter(range(1000))

    def load(folders: list[Path]) -> object:
        file(folder, "roles.yaml", f"roles: {{mine: cross, more{next(count)}: self}}\n")
        return load_rules(folders)

    monkeypatch.setattr("selector.reloading.load_rules", load)

    with pytest.raises(TableError, match="changing: the files changed while they were read, 5 times in a row"):
        load_settled([folder])


def test_the_stamp_tells_every_change(folder: Path) -> None:
    """Of content, names, and whether a file is another one; and nothing where there is nothing."""
    seen = {stamp([folder])}
    file(folder, "roles.yaml", "roles: {mine: self}\n")
    seen.add(stamp([folder]))
    (folder / "roles.yaml").rename(folder / "b.roles.yaml")
    seen.add(stamp([folder]))
    (folder / "b.roles.yaml").unlink()
    seen.add(stamp([folder]))

    assert len(seen) == 4
    assert stamp([folder]) == stamp([folder / "nowhere"]) == stamp(["a\0b"]) == ()


# --- the watcher ---


@contextmanager
def watched(selector: Selector, *, shadow: bool = False) -> Iterator[list[Reload]]:
    """Watch a selector, and give what is told."""
    told: list[Reload] = []
    with Watcher(selector, settle=0.05, told=told.append, shadow=shadow):
        yield told


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether a condition comes to hold."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_change_is_found(folder: Path) -> None:
    """A broken one too, and what mends it."""
    selector = on(folder)
    with watched(selector) as told:
        file(folder, "edits.yaml", OUT)
        assert eventually(lambda: answer(selector)[0] == "TORCH_SDPA")
        file(folder, "edits.yaml", BROKEN)
        assert eventually(lambda: selector.decide().outdated is not None)
        (folder / "edits.yaml").unlink()
        assert eventually(lambda: answer(selector)[0] == "CUDNN_ATTN")

    assert [result.outcome for result in told] == ["swapped", "refused", "swapped"]


def test_a_folder_that_is_moved_away_and_comes_back(folder: Path) -> None:
    """While it is away, the old rules serve and say so."""
    selector = on(folder)
    with watched(selector):
        away = folder.rename(folder.with_name("away"))
        assert eventually(lambda: selector.decide().outdated is not None)
        assert answer(selector)[0] == "CUDNN_ATTN"
        file(away, "edits.yaml", OUT)
        away.rename(folder)
        assert eventually(lambda: answer(selector)[0] == "TORCH_SDPA")

    assert selector.decide().outdated is None


def test_a_rule_set_in_one_file_is_watched(tmp_path: Path) -> None:
    """Also when another file takes its place."""
    path = tmp_path / "set.yaml"
    path.write_text("roles: {roles: {mine: cross}}")
    selector = on(path)
    with watched(selector):
        (tmp_path / "new").write_text("roles: {roles: {mine: self}}")
        (tmp_path / "new").replace(path)
        assert eventually(lambda: selector.decide("mine").role_category == "self")


def test_what_changed_before_the_watch_is_found(folder: Path) -> None:
    """Between the load and the start."""
    selector = on(folder)
    file(folder, "edits.yaml", OUT)

    with watched(selector):
        assert eventually(lambda: answer(selector)[0] == "TORCH_SDPA")


def test_a_watcher_may_put_newer_rules_into_the_shadow(folder: Path) -> None:
    """And nothing serves before somebody says so."""
    selector = on(folder)
    with watched(selector, shadow=True):
        file(folder, "edits.yaml", OUT)
        assert eventually(lambda: selector.shadow is not None)

    assert answer(selector)[0] == "CUDNN_ATTN"


def test_there_must_be_something_to_watch() -> None:
    """Files, and not the shipped rules alone."""
    for selector in (Selector(facts=BLACKWELL, environment={}), Selector(rules=shipped(), facts=BLACKWELL)):
        with pytest.raises(ValueError, match="wanted a selector whose rules are read from folders or files"):
            Watcher(selector)


@pytest.mark.parametrize("generations", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_eight_threads_decide_while_files_are_written_half_deleted_and_renamed(folder: Path, generations: int) -> None:
    """Never an exception, and never a rule set that is half of one generation and half of the next."""
    selector = on(folder)
    expected = {selector.rules.digest: "cross"}
    seen: set[tuple[str, str | None]] = set()
    over = threading.Event()

    def decide() -> None:
        while not over.is_set():
            decision = selector.decide("mine", head_dim=128)
            seen.add((decision.digest, decision.role_category))

    with ThreadPoolExecutor(8) as pool, watched(selector) as told:
        deciding = [pool.submit(decide) for _ in range(8)]
        for number in range(generations):
            digest = generation(folder, number)
            expected[digest] = f"g{number}"
            assert eventually(lambda digest=digest: selector.rules.digest == digest)  # type: ignore[misc]
        over.set()
        faults = [future.exception() for future in deciding]

    assert faults == [None] * 8
    assert seen <= set(expected.items())
    assert len([one for one in told if one.outcome == "swapped"]) >= generations


def generation(folder: Path, number: int) -> str:
    """Write one generation into two files, in a rude way, and give the digest of it whole."""
    roles = f"roles: {{mine: g{number}}}\n"
    edits = OUT.replace("because: x", f"because: g{number}")
    style = number % 3
    if style == 0:  # half, then whole
        (folder / "roles.yaml").write_text(roles[: len(roles) // 2])
        (folder / "edits.yaml").write_text(edits[: len(edits) // 2])
        time.sleep(0.15)
    elif style == 1:  # deleted, then written anew
        (folder / "edits.yaml").unlink()
        (folder / "roles.yaml").write_text("roles: [")
        time.sleep(0.15)
    else:  # renamed into their places
        for name, text in (("edits.yaml", edits), ("roles.yaml", roles)):
            (folder / f"{name}.new").write_text(text)
            (folder / f"{name}.new").replace(folder / name)
    (folder / "roles.yaml").write_text(roles)
    (folder / "edits.yaml").write_text(edits)
    return load_rules([folder]).digest


def test_a_pickled_copy_decides_alike(folder: Path) -> None:
    """And reloads what the selector it was made from would."""
    selector = on(folder)
    copied = pickle.loads(pickle.dumps(selector))  # noqa: S301 - made on the same line

    assert answer(copied) == answer(selector)
    file(folder, "edits.yaml", OUT)
    assert copied.reload().outcome == "swapped"
    assert answer(copied)[0] == "TORCH_SDPA"
    assert answer(selector)[0] == "CUDNN_ATTN"
