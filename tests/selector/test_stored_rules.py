"""Rule sets in the cache folder: what is taken from there is the same, and what is doubtful is not taken."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from selector import data, stored_rules
from selector.lines import Lines
from selector.merged import as_yaml
from selector.rules import conditions
from selector.rules.conditions import ALWAYS, Condition, Facts
from selector.rules.problems import TableError
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, load_rules

CASES = Path(__file__).parents[1] / "conformance"
EVERY_MATCHER = """\
table: matchers
new: true
targets: backends
rows:
  - id: every
    when:
      platform: {in: [cuda, rocm]}
      arch: {in: [sm_8x, sm_90]}
      cudnn: ">=9.5"
      packages.flashinfer: {compare: ">=0.6,<1", unknown: match}
      packages.kernels: {equals: 0.14.1}
      packages.sageattention: absent
      head_dim: {multiple_of: 8, min: 16, max: 256}
      causal: {equals: false, unknown: fail}
      not: {num_heads: 3}
      any: [{model: X}, {seq_len_q: 5}]
    use: TORCH_SDPA
    because: Every matcher stands here.
  - {id: rest, use: TORCH_SDPA, because: The rest.}
"""
FACTS: Facts = {
    "platform": "rocm", "arch": "sm_86", "cudnn": 90500, "packages.flashinfer": "0.6.18", "packages.kernels": "0.14.1",
    "packages.sageattention": None, "head_dim": 64, "causal": False, "num_heads": 4, "model": None, "seq_len_q": 5,
}  # fmt: skip
OTHERS: tuple[Value, ...] = (None, "0.1", "sm_100", 3, 7, True)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the cache be a folder of the test's own; gives where rules lie in it."""
    monkeypatch.setenv("ATTENTION_SELECTOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rules"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a table of its own, and an edit."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "matchers.yaml").write_text(EVERY_MATCHER, encoding="utf-8")
    return tmp_path / "own"


def recalled(*folders: Path) -> bool:
    """Load rules, and tell whether they came from the cache."""
    return isinstance(load_rules(folders).content, stored_rules._Content)


def every_condition(rules: RuleSet) -> Iterator[Condition]:
    """Give every condition of a rule set in order."""
    for table in rules.tables.values():
        yield from (row.when for row in table.rows)
    for backend in rules.backends.values():
        yield from (backend.ability, *(caution.when for caution in backend.unverified))
    yield from (provider.ability for provider in rules.providers.values())
    yield from (caution.when for caution in rules.warnings)


def asked(rules: RuleSet) -> list[object]:
    """Give all that is written of every test, with its place."""
    return [
        (type(condition), test.fact, test.op, test.wanted, test.at_null, test.at_unknown, test.special, test.place,
         test.mentions)
        for condition in every_condition(rules)
        for test in conditions.tests(condition)
    ]  # fmt: skip


# --- the same -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
def test_a_recalled_set_is_the_same(cache: Path, folder: Path, own: bool) -> None:
    """Digest, words, catalogues, rows, places, and what is written of each row."""
    folders = [folder, data.folder("rules") / "starter"] if own else []
    read = load_rules(folders)

    found = load_rules(folders)

    assert isinstance(found.content, stored_rules._Content)
    assert not isinstance(read.content, stored_rules._Content)
    assert (found.digest, found.folders, found.notices) == (read.digest, read.folders, read.notices)
    assert found.vocabulary == read.vocabulary
    assert (found.models, found.roles) == (read.models, read.roles)
    assert asked(found) == asked(read)
    assert [list(table.rows) for table in found.tables.values()] != []
    for name, table in read.tables.items():
        other = found.tables[name]
        assert (other.description, other.requires, other.targets, other.place) == (
            table.description, table.requires, table.targets, table.place,
        )  # fmt: skip
        assert [(row.name, row.place, row.because, row.log, row.warn) for row in other.rows] == [
            (row.name, row.place, row.because, row.log, row.warn) for row in table.rows
        ]
    assert as_yaml(found) == as_yaml(read)
    assert pickle.loads(pickle.dumps(found)).digest == read.digest  # noqa: S301 - made here


def test_what_is_shared_stays_shared(cache: Path) -> None:
    """A row without `when` asks `ALWAYS` itself; the names of a model have one entry."""
    load_rules()

    found = load_rules()

    assert found.table("platform_default").rows[-1].when is ALWAYS
    models = list(found.models.values())
    assert len(set(map(id, models))) < len(models)
    assert found.abilities["backends"]["CUDNN_ATTN"] is found.backends["CUDNN_ATTN"].ability


def test_every_matcher_answers_the_same(cache: Path, folder: Path) -> None:
    """Checks are made anew where they are asked, of what they were made of before."""
    (read, *_), (found, *_) = (load_rules([folder]).table("matchers").rows for _ in range(2))

    for fact, value in FACTS.items():
        assert found.when.holds(FACTS) is read.when.holds(FACTS) is True
        for other in [one for one in OTHERS if one is None or value is None or type(one) is type(value)]:
            changed: Facts = {**FACTS, fact: other}
            assert found.when.holds(changed) is read.when.holds(changed), (fact, other)
        unknown = {name: value for name, value in FACTS.items() if name != fact}
        assert found.when.holds(unknown) is read.when.holds(unknown), (fact, value)


def test_decisions_and_traces_are_the_same(cache: Path) -> None:
    """Every third line of the conformance cases is answered in the same words, with every place."""
    read, found = load_rules(), load_rules()
    lines = [line for name in ("selection", "call") for line in (CASES / f"{name}.jsonl").read_bytes().splitlines()]

    for line in lines[::3]:
        assert Lines(found, trace=True).answer(line) == Lines(read, trace=True).answer(line)


# --- what is seen -------------------------------------------------------------------------------------------------


def test_an_edit_is_seen_whatever_its_time(cache: Path, folder: Path) -> None:
    """The bytes count, and neither size nor time; the old bytes are recalled again."""
    file = folder / "matchers.yaml"
    before = file.stat()
    load_rules([folder])
    file.write_text(EVERY_MATCHER.replace("min: 16", "min: 24"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    edited = load_rules([folder])

    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert "at least 24" in {test.wanted for test in conditions.tests(edited.table("matchers").rows[0].when)}
    file.write_text(EVERY_MATCHER, encoding="utf-8")
    assert recalled(folder)


@pytest.mark.parametrize("change", ["rename", "add", "order", "elsewhere"])
def test_names_and_their_order_are_seen(cache: Path, folder: Path, tmp_path: Path, change: str) -> None:
    """Another name gives other places, another file or order other rules."""
    starter = data.folder("rules") / "starter"
    load_rules([folder, starter])

    folders = [folder, starter]
    if change == "rename":
        (folder / "matchers.yaml").rename(folder / "m.yaml")
    elif change == "add":
        (folder / "roles.yaml").write_text("roles: {own: self}\n", encoding="utf-8")
    elif change == "order":
        folders = [starter, folder]
    else:
        folder.rename(tmp_path / "other")
        folders = [tmp_path / "other", starter]

    assert not recalled(*folders)
    assert recalled(*folders)


def test_another_reader_reads_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that another version, Python or source kept is none of ours."""
    load_rules()
    monkeypatch.setattr(stored_rules, "_readers", lambda: b"another version")

    assert not recalled()
    assert recalled()


def test_rules_with_problems_are_not_kept(cache: Path, folder: Path) -> None:
    """They are refused each time, in the same words."""
    (folder / "matchers.yaml").write_text(EVERY_MATCHER.replace("platform:", "platfrm:"), encoding="utf-8")

    told = []
    for _ in range(2):
        with pytest.raises(TableError) as caught:
            load_rules([folder])
        told.append(str(caught.value))

    assert told[0] == told[1]
    assert "unknown-fact" in told[0]
    assert not cache.exists()


def test_a_file_that_cannot_be_read_is_told_each_time(cache: Path, folder: Path) -> None:
    """What is kept is not asked for then."""
    load_rules([folder])
    (folder / "gone.yaml").symlink_to("nowhere")

    with pytest.raises(TableError, match="unreadable"):
        load_rules([folder])


# --- what is not trusted ------------------------------------------------------------------------------------------


def _evil(body: bytes) -> bytes:
    """Give a whole file with the same head, and a body that would end the process."""
    key = body.split()[2].decode()
    told = b"cos\n_exit\n(I7\ntR."
    return stored_rules._head(key, told, len(told)) + told


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "no head": lambda whole: whole.split(b"\n", 1)[1],
    "head alone": lambda whole: whole.split(b"\n", 1)[0] + b"\n",
    "half": lambda whole: whole[: len(whole) // 2],
    "a byte less": lambda whole: whole[:-1],
    "a byte more": lambda whole: whole + b"x",
    "a bit": lambda whole: whole[:-500] + bytes([whole[-500] ^ 1]) + whole[-499:],
    "another length": lambda whole: whole.replace(b"\n", b"0\n", 1),
    "no length": lambda whole: whole.replace(b"\n", b" x\n", 1),
    "text": lambda _: b"hello\n" * 100,
    "another key": lambda whole: whole.replace(whole.split()[2], hashlib.sha256(b"x").hexdigest().encode(), 1),
    "other code": _evil,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_written_anew(cache: Path, damage: str) -> None:
    """It gives no error and no other rules."""
    digest = load_rules().digest
    (entry,) = cache.iterdir()
    entry.write_bytes(DAMAGES[damage](entry.read_bytes()))

    found = load_rules()

    assert found.digest == digest
    assert not isinstance(found.content, stored_rules._Content)
    assert recalled()


def test_an_entry_that_others_may_write_is_not_read(cache: Path) -> None:
    """It is written anew, for us alone."""
    load_rules()
    (entry,) = cache.iterdir()
    entry.chmod(0o666)

    assert not recalled()
    assert entry.stat().st_mode & 0o777 == 0o600
    assert recalled()


def test_a_folder_that_others_may_write_is_left_alone(cache: Path) -> None:
    """Nothing is read from it, and nothing written."""
    load_rules()
    (entry,) = cache.iterdir()
    cache.chmod(0o777)
    entry.unlink()

    assert not recalled()
    assert not recalled()
    assert list(cache.iterdir()) == []


def test_what_belongs_to_somebody_else_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a whole entry is read."""
    load_rules()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert not recalled()


@pytest.mark.parametrize("name", [os.devnull, "/proc/nowhere", "file/below", "\0"])
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """The rules are read each time; so the cache is switched off."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(stored_rules, "cache_folder", lambda: tmp_path / name)

    assert not recalled()
    assert not recalled()


# --- together -----------------------------------------------------------------------------------------------------


def test_processes_that_write_at_once_do_no_harm(cache: Path, folder: Path) -> None:
    """Each of them has the same rules, and one whole entry is left."""
    source = "import sys; from selector import load_rules; print(load_rules(sys.argv[1:]).digest)"
    command = [sys.executable, "-c", source, str(folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]

    told = {process.communicate()[0].strip() for process in running}

    assert told == {load_rules([folder]).digest}
    assert recalled(folder)
    assert len(list(cache.iterdir())) == 1


def test_threads_that_write_and_read_at_once_do_no_harm(cache: Path, folder: Path) -> None:
    """A reader sees a whole entry or none, also while entries are damaged and written anew."""
    digest = load_rules([folder]).digest
    (entry,) = cache.iterdir()

    def load(at: int) -> str:
        if at % 3 == 0:
            entry.write_bytes(b"damaged")
        return load_rules([folder]).digest

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(load, range(24))) == {digest}


def test_old_entries_are_taken_away(cache: Path, folder: Path) -> None:
    """The newest sixteen stay, and one that was used lately is new."""
    file = folder / "matchers.yaml"
    load_rules([folder])
    (first,) = cache.iterdir()
    for at in range(stored_rules.MOST_KEPT + 3):
        for path in cache.iterdir():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 4000))
        file.write_text(EVERY_MATCHER.replace("min: 16", f"min: {at}"), encoding="utf-8")
        load_rules([folder])
        file.write_text(EVERY_MATCHER, encoding="utf-8")
        assert recalled(folder)

    assert len(list(cache.iterdir())) == stored_rules.MOST_KEPT
    assert first.exists()


def test_a_command_takes_its_rules_from_the_cache(cache: Path, tmp_path: Path) -> None:
    """Neither PyYAML nor what reads rules is loaded then."""
    line = json.dumps({"facts": {"platform": "cpu"}})
    source = (
        "import sys; from selector.command import main; main(['decide', sys.argv[1]]);"
        "print(sorted({'yaml', 'selector.linking', 'selector.overlays'} & set(sys.modules)))"
    )
    (tmp_path / "lines").write_text(line, encoding="utf-8")
    command = [sys.executable, "-c", source, str(tmp_path / "lines")]

    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() for _ in range(2)]

    assert told[0][0] == told[1][0]
    assert told[0][1] == "['selector.linking', 'selector.overlays', 'yaml']"
    assert told[1][1] == "[]"
