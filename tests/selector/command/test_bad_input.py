"""Bad input, wherever it comes from: a placed sentence and status 2, within a second and 150 MB, and no traceback."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.selector.command.runs import Process, assert_bad_input, assert_in_bounds, process

CONFIG, BACKEND = "--diffusion-attention-config", "--diffusion-attention-backend"
MEBIBYTE = 1 << 20
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
)
# Content of a file, where in it the problem is, and its code.
TEXTS: dict[str, tuple[bytes, str, str]] = {
    "alias bomb": (BOMB.encode(), ":6:", "too-large"),
    "alias of itself": (b"a: &a [*a]\n", ":1:8", "alias"),
    "alias of nothing": (b"a: *b\n", ":1:4", "alias"),
    "10 MB": (b"# x\n" * 2_600_000, "", "too-large"),
    "10 MB in one line": (b"x" * 10_000_000, "", "too-large"),
    "200,000 values": (b"a: [" + b"x, " * 200_000 + b"]\n", ":1:", "too-large"),
    "1,000 levels in a line": (b"[" * 1000 + b"]" * 1000, ":1:65", "too-deep"),
    "1,000 levels of lines": ("".join(" " * i + "a:\n" for i in range(1000)).encode(), ":65:65", "too-deep"),
    "100,000 brackets": (b"[" * 100_000, ":1:1001", "yaml-syntax"),
    "tab": (b"a:\n\tb: 1\n", ":2:1", "yaml-syntax"),
    "duplicate key": (b"a: 1\nb: 2\na: 3\n", ":3:1", "duplicate-key"),
    "not UTF-8": (b"a: 1\nb: \xff\n", ":2:4", "not-utf-8"),
    "UTF-16": ("a: 1\n".encode("utf-16"), ":1:1", "not-utf-8"),
    "a surrogate": (b"a: \xed\xa0\x80\n", ":1:4", "not-utf-8"),
    "a control character": (b"a: 1\nb: \x00\n", ":2:", "yaml-syntax"),
    "empty": (b"", ":1:1", "empty"),
    "white space": (b"\n  \n", ":1:1", "empty"),
    "comments": (b"# nothing\n", ":1:1", "empty"),
    "tag": (b"a: !!python/object/apply:os.system [echo]\n", ":1:4", "tag"),
    "two documents": (b"a: 1\n---\na: 2\n", ":2:1", "several-documents"),
    "a number as key": (b"1: x\n", ":1:1", "key-type"),
    "a list as key": (b"? [a]\n: b\n", ":1:3", "key-type"),
    "a million digits": (b"a: " + b"9" * 1_000_000 + b"\n", ":1:4", "number"),
    "an open quote": (b'a: "b\n', ":", "yaml-syntax"),
    "an open bracket": (b"a: [b\n", ":", "yaml-syntax"),
}
JSON_TEXTS: dict[str, tuple[bytes, str, str]] = {
    "NaN": (b'{"a": NaN}', ":1:7", "json-syntax"),
    "1e999": (b'{"a": 1e999}', ":1:7", "number"),
    "a duplicate key": (b'{"a": 1,\n "a": 2}', ":2:2", "duplicate-key"),
    "a comma too many": (b'{"a": 1,}', ":1:9", "json-syntax"),
    "1,000 levels": (b'{"a":' * 1000, ":1:321", "too-deep"),
    "10 MB": (b" " * 10_000_000, "", "too-large"),
    "empty": (b"", ":1:1", "json-syntax"),
    "not UTF-8": (b'{"a": "\xff"}', ":1:8", "not-utf-8"),
    "a million digits": (b'{"a": ' + b"9" * 1_000_000 + b"}", ":1:7", "number"),
    "two values": (b"{} {}", ":1:4", "json-syntax"),
}


def of_facts(path: Path) -> list[str]:
    """Give the arguments that read a file as facts."""
    return ["explain", "--facts", str(path)]


def of_config(path: Path) -> list[str]:
    """Give the arguments that read a file as config."""
    return ["explain", CONFIG, str(path)]


def of_rules(path: Path) -> list[str]:
    """Give the arguments that read the folder of a file as rules."""
    return ["explain", "--rules", str(path.parent)]


READERS: dict[str, Callable[[Path], list[str]]] = {"facts": of_facts, "config": of_config, "rules": of_rules}
reading = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


def told(ran: Process, place: str, code: str) -> None:
    """Hold that one problem was told, in its place."""
    assert_bad_input(ran)
    assert ran.out == ""
    first = ran.err.splitlines()[0]
    assert first.startswith(place), first
    assert f": {code}: " in first, first


@reading
@pytest.mark.parametrize("name", TEXTS)
def test_yaml_that_cannot_be_read(tmp_path: Path, name: str, reader: Callable[[Path], list[str]]) -> None:
    """Told with line and column."""
    content, place, code = TEXTS[name]
    path = tmp_path / "provider.yaml"
    path.write_bytes(content)

    told(process(*reader(path)), f"{path}{place}", code)


@reading
@pytest.mark.parametrize("name", JSON_TEXTS)
def test_json_that_cannot_be_read(tmp_path: Path, name: str, reader: Callable[[Path], list[str]]) -> None:
    """The same, by the rules of JSON."""
    content, place, code = JSON_TEXTS[name]
    path = tmp_path / "provider.json"
    path.write_bytes(content)

    told(process(*reader(path)), f"{path}{place}", code)


def make_directory(path: Path) -> None:
    """Make a directory where a file should be."""
    path.mkdir()


def make_loop(path: Path) -> None:
    """Make a symbolic link to itself."""
    path.symlink_to(path.name)


def make_dangling(path: Path) -> None:
    """Make a symbolic link to a file that was removed."""
    target = path.with_name("removed")
    target.write_text("{}", encoding="utf-8")
    path.symlink_to(target.name)
    target.unlink()


@reading
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_directory, "is a directory"),
        (make_loop, "too many levels of symbolic links"),
        (make_dangling, "no such file or directory"),
    ],
)
def test_files_that_are_none(
    tmp_path: Path, make: Callable[[Path], None], reason: str, reader: Callable[[Path], list[str]]
) -> None:
    """Told with the reason of the system."""
    path = tmp_path / "provider.yaml"
    make(path)

    ran = process(*reader(path))

    told(ran, str(path), "unreadable")
    assert f"cannot read the file: {reason}" in ran.err


@pytest.mark.parametrize("arguments", [["--facts"], [CONFIG], ["--rules"]], ids=["facts", "config", "rules"])
@pytest.mark.parametrize("name", ["/nowhere/x.yaml", "a\udcffb", "x" * 300, "/dev/null/x"])
def test_names_that_name_nothing(arguments: list[str], name: str) -> None:
    """Bytes that are no text, names that no file may have, and files that are not there."""
    ran = process("explain", *arguments, os.fsencode(name))

    assert_bad_input(ran)
    assert ": unreadable: cannot read the " in ran.err


def test_a_file_that_disappears_is_told_or_was_read(tmp_path: Path) -> None:
    """Whatever comes first."""
    path = tmp_path / "facts.yaml"
    path.write_text("platform: cpu\n", encoding="utf-8")
    removal = threading.Timer(0.05, lambda: path.unlink(missing_ok=True))
    removal.start()

    ran = process("explain", "--facts", str(path))
    removal.join()

    assert ran.status in {0, 2}
    assert "Traceback" not in ran.err


# --- texts that can be read and say the wrong thing ---


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("platform: on\n", ":1:11", "bad-value: `platform`: wanted one of cuda, rocm, xpu, npu, musa, cpu, got `on`"),
        ("platform: cuda\ncudnn: 4:30\n", ":2:8", "bad-value: `cudnn`: wanted an integer, got the string `4:30`"),
        ("platform: cuda\ncudnn: 9.5\n", ":2:8", "bad-value: `cudnn`: wanted an integer, got the number 9.5"),
        ("platform: cuda\ncudnn: .inf\n", ":2:8", "bad-value: `cudnn`: wanted an integer, got the number inf"),
        ("platform: cuda\ncudnn: yes\n", ":2:8", "bad-value: `cudnn`: wanted an integer, got the string `yes`"),
        ("platform: cuda\ncudnn: true\n", ":2:8", "bad-value: `cudnn`: wanted an integer, got true"),
        ("packages:\n  flash-attn: 2.10\n", ":2:15",
         "bad-value: `packages.flash-attn`: wanted a version as a string, got the number 2.1\n  hint: quote it"),
        ("packages: {flash-atn: '2'}\n", ":1:12",
         "unknown-key: no package `flash-atn` in the vocabulary\n  hint: did you mean `flash-attn`?"),
        ("arhc: sm_90\n", ":1:1", "unknown-key: no key `arhc` here\n  hint: did you mean `arch`?"),
        ("- platform: cuda\n", ":1:1", "wrong-type: wanted a mapping of facts, got a list"),
        ("cuda\n", ":1:1", "wrong-type: wanted a mapping of facts, got the string `cuda`"),
        ("platform: cuda\narch: sm90\n", ":2:7",
         "bad-value: `arch`: wanted a value such as `sm_90` on cuda, got `sm90`"),
    ],
)  # fmt: skip
def test_facts_that_say_the_wrong_thing(tmp_path: Path, text: str, place: str, message: str) -> None:
    """Words that other YAML takes for truth or time are words."""
    path = tmp_path / "facts.yaml"
    path.write_text(text, encoding="utf-8")

    ran = process("explain", "--facts", str(path))

    assert_bad_input(ran)
    assert ran.err == f"{path}{place}: {message}\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("default: on\n", ":1:10", "unknown-backend: no backend `on`"),
        ("default: true\n", ":1:10", "wrong-type: "),
        ("default: 4:30\n", ":1:10", "unknown-backend: no backend `4:30`"),
        ("default: {backend: TRTLLM_ATTN, skip_softmax: {threshold: .nan}}\n", ":1:59", "wrong-type: "),
        ("default: {backend: TRTLLM_ATTN, skip_softmax: {threshold: -.inf}}\n", ":1:59", "wrong-type: "),
        ("default: {backend: TRTLLM_ATTN, skip_softmax: {threshold: yes}}\n", ":1:59", "wrong-type: "),
        ("default: {backend: TRTLLM_ATTN, quant: {q_block_size: 3}}\n", ":1:55", "bad-value: "),
        ("default: SAGE_ATN\n", ":1:10", "unknown-backend: no backend `SAGE_ATN`\n  hint: did you mean `SAGE_ATTN`?"),
        ("per_rol: {}\n", ":1:1", "unknown-key: no key `per_rol` here\n  hint: did you mean `per_role`?"),
        ("per_role: []\n", ":1:11", "wrong-type: "),
        ("- default\n", ":1:1", "wrong-type: "),
    ],
)
def test_a_config_that_says_the_wrong_thing(tmp_path: Path, text: str, place: str, message: str) -> None:
    """The same."""
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")

    ran = process("explain", CONFIG, str(path))

    assert_bad_input(ran)
    assert ran.err.startswith(f"{path}{place}: {message}")


TABLE = "table: explicit\nrequires: [platform, backend, policy]\nrows:\n"
ROW = TABLE + "  - id: one\n    {}\n    refuse: no\n    because: x\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (ROW.format("when: {mask_free: on}"), ":5:23",
         "bad-value: `mask_free`: wanted true or false, got the string `on`"),
        (ROW.format("when: {head_dim: 4:30}"), ":5:22",
         "bad-value: `head_dim`: wanted an integer or `symbolic`, got the string `4:30`"),
        (ROW.format("when: {packages.flashinfer: 0.6}"), ":5:33",
         "bad-value: `packages.flashinfer`: wanted a version as a string, got the number 0.6\n  hint: quote it"),
        (ROW.format("when: {head_dims: 1}"), ":5:12",
         "unknown-fact: no fact `head_dims`\n  hint: did you mean `head_dim`?"),
        (ROW.format("when: {arch: {in: hoper}}"), ":5:23",
         "unknown-set: no set `hoper`\n  hint: did you mean `hopper`?"),
        (ROW.format("when: {arch: {in: hopper}}"), ":4:5", "no-last-resort: "),
        (ROW.format("wen: {}"), ":5:5", "unknown-key: no key `wen` here"),
        ("table: explict\nrows: []\n", ":1:8", "unknown-table: no table `explict`\n  hint: did you mean `explicit`?"),
        ("tables: {}\n", ":1:1", "unknown-file: "),
        ("- table\n", ":1:1", "unknown-file: "),
    ],
)  # fmt: skip
def test_rules_that_say_the_wrong_thing(tmp_path: Path, text: str, place: str, message: str) -> None:
    """The same."""
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")

    ran = process("explain", "--rules", str(tmp_path))

    assert_bad_input(ran)
    assert f"{path}{place}: {message}" in ran.err


@pytest.mark.parametrize("variables", [{"ATTENTION_SELECTOR_RULES": "/nowhere"}, {"ATTENTION_SELECTOR_POLICY": "lax"},
                                       {"DIFFUSION_ATTENTION_BACKEND": "NOPE"}])  # fmt: skip
def test_variables_that_say_the_wrong_thing(variables: Mapping[str, str]) -> None:
    """Told by their name, or by the folder's."""
    ran = process("explain", variables=variables)

    assert_bad_input(ran)
    assert any(word in ran.err for word in (*variables, "/nowhere"))


# --- the command line ---


@pytest.mark.parametrize(
    "arguments",
    [
        [b"\xff"],
        [b"explain", b"--\xff"],
        [b"explain", b"--device", b"\xff"],
        [BACKEND.encode(), b"\xff"],
        [b"explain", BACKEND.encode(), b"\xff"],
        [b"explain", CONFIG.encode(), b'{"default": "\xff"}'],
        [b"explain", CONFIG.encode() + b".\xff", b"X"],
        [b"explain", b"--policy", b"\xff"],
        [b"explain", b"--dtype", b"\xff"],
        [b"explain", b"--why-not", b"\xff"],
        [b"decide", b"\xff"],
        [b"validate", b"--facts", b"\xff", b"--rules", b"\xff"],
        [b"explain", CONFIG.encode() + b".default", b"\xff"],
    ],
    ids=repr,
)
def test_arguments_that_are_no_text(arguments: list[bytes]) -> None:
    """Bytes that the terminal's encoding does not know arrive as lone surrogates."""
    assert_bad_input(process(*arguments))


@pytest.mark.parametrize("flag", ["--role", "--model", "--role-category"])
def test_names_of_any_bytes_are_names(flag: str) -> None:
    """Nothing is wrong with them, and they are shown without harm."""
    ran = process("explain", flag, b"\xff\x1b[31m")

    assert (ran.status, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "\\udcff" in ran.out


def test_an_argument_of_any_length(tmp_path: Path) -> None:
    """As long as the system takes it."""
    ran = process("explain", BACKEND, "x" * 100_000)

    assert_bad_input(ran)
    assert len(ran.err) < 1000


def test_many_dotted_flags() -> None:
    """A thousand of them are read in bounds."""
    flags = [f"{CONFIG}.per_role.r{i}=TORCH_SDPA" for i in range(1000)]

    ran = process("explain", *flags)

    assert (ran.status, ran.err) == (0, "")
    assert_in_bounds(ran)


# --- much that is wrong ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("keys.json", b"{" + b",".join(b'"%d":1' % i for i in range(90_000)) + b"}"),
        pytest.param("keys.yaml", b"".join(b"k%d: 1\n" % i for i in range(45_000))),
        ("devices.json", b'{"devices":[' + b",".join([b'{"x":1}'] * 120_000) + b"]}"),
        ("numbers.json", b'{"platform":"cpu","notes":[' + b",".join([b"1"] * 500_000) + b"]}"),
        ("numbers.yaml", b"platform: cpu\nnotes: [" + b"1, " * 99_000 + b"]\n"),
    ],
)
def test_a_mebibyte_of_values_is_read_in_bounds(tmp_path: Path, name: str, content: bytes) -> None:
    """Whether it is well or not."""
    path = tmp_path / name
    path.write_bytes(content)
    assert len(content) <= MEBIBYTE

    ran = process("validate", "--facts", str(path))

    assert_in_bounds(ran)
    assert len(ran.err) < 100_000
