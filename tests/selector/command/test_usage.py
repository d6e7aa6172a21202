"""The command line: what is not understood names the nearest, and every status is one of the contract."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from selector import __version__, command
from selector.command import complain, main, options
from selector.command.options import parse
from selector.command.usage import UsageError
from tests.selector.command.runs import ask, process

HINT = "  hint: attention-selector --help\n"
COMMANDS = (
    "decide",
    "diff",
    "explain",
    "facts",
    "init",
    "lint",
    "log",
    "replay",
    "rules",
    "schema",
    "selftest",
    "table",
    "test",
    "validate",
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["--foo"], "the following arguments are required: COMMAND"),
        (["explain", "--fact", "x"], "unrecognized argument `--fact`; did you mean `--facts`?"),
        (["explain", "--fatcs=x"], "unrecognized argument `--fatcs=x`; did you mean `--facts`?"),
        (["explain", "--Role", "self"], "unrecognized argument `--Role`; did you mean `--role`?"),
        (["explain", "--diffusion-attention-backed", "X"],
         "unrecognized argument `--diffusion-attention-backed`; did you mean `--diffusion-attention-backend`?"),
        (["decide", "--tracing"], "unrecognized argument `--tracing`; did you mean `--trace`?"),
        (["facts", "--deeep"], "unrecognized argument `--deeep`; did you mean `--deep`?"),
        (["validate", "--rule", "x"], "unrecognized argument `--rule`; did you mean `--rules`?"),
        (["decide", "--zzzzz"], "unrecognized argument `--zzzzz`"),
        (["decide", "one", "two"], "unrecognized argument `two`"),
        (["explain", "self"], "unrecognized argument `self`"),
        (["explain", "--role"], "argument --role: expected one argument"),
        (["explain", "--device", "x"], "argument --device: invalid int value: 'x'"),
        (["facts", "--timeout", "soon"], "argument --timeout: invalid float value: 'soon'"),
        (["explain", "--mask-free", "--masked"], "argument --masked: not allowed with argument --mask-free"),
        (["facts", "--diffusion-attention-config.default.backend", "X"],
         "`facts` takes no --diffusion-attention-config.…"),
        (["decide", "--diffusion-attention-config.default.backend=X"],
         "`decide` takes no --diffusion-attention-config.…"),
        (["explain", "--diffusion-attention-config.default.backend"],
         "argument --diffusion-attention-config.default.backend: expected one argument"),
        (["explain", "--diffusion-attention-config"],
         "argument --diffusion-attention-config: expected one argument"),
    ],
)  # fmt: skip
def test_a_command_line_that_is_not_understood(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, one sentence with the nearest option, and where to read on."""
    ran = ask(capsys, *arguments)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"usage: {message}\n{HINT}"


@pytest.mark.parametrize("name", ["explain", "facts"])
def test_a_format_that_nobody_writes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The choices are told."""
    ran = ask(capsys, name, "--format", "svg")

    assert ran.status == 2
    assert "argument --format: invalid choice: 'svg' (choose from" in ran.err


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With all that there are."""
    ran = ask(capsys, "zzz")

    assert ran.status == 2
    assert all(name in ran.err for name in ("zzz", *COMMANDS))


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """As an unknown option does."""
    assert "did you mean `explain`?" in ask(capsys, "explian").err


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_is_done(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, and it names the options."""
    ran = ask(capsys, *([name] if name else []), "--help")

    assert ran.status == 0
    assert ran.out.startswith(f"usage: attention-selector {name or '[-h]'}")
    assert ran.err == ""


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With the name."""
    assert ask(capsys, "--version") == (0, f"attention-selector {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "dotted"),
    [
        ([], []),
        (["--diffusion-attention-config.default", "X"], [("default", "X")]),
        (["--diffusion-attention-config.default=X"], [("default", "X")]),
        (["--diffusion-attention-config.default.backend=a=b"], [("default.backend", "a=b")]),
        (["--diffusion-attention-config.default.backend="], [("default.backend", "")]),
        (["--diffusion-attention-config.default.backend", ""], [("default.backend", "")]),
        (["--diffusion-attention-config.a", "1", "--role", "x", "--diffusion-attention-config.b", "2"],
         [("a", "1"), ("b", "2")]),
    ],
)  # fmt: skip
def test_dotted_flags_are_taken_in_their_order(arguments: list[str], dotted: list[tuple[str, str]]) -> None:
    """With the value behind the sign or in the next argument."""
    assert parse(["explain", *arguments]).dotted == dotted


def test_options_are_not_abbreviated() -> None:
    """What is nearly an option is a slip."""
    with pytest.raises(UsageError, match=r"unrecognized argument `--rul`"):
        parse(["decide", "--rul", "x"])


def test_arguments_come_from_the_process_when_none_are_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for the installed command."""
    monkeypatch.setattr(sys, "argv", ["attention-selector", "zzz"])

    assert main() == 2
    assert "zzz" in capsys.readouterr().err


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the status that shells give it."""

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    namespace = options.parse(["facts"])
    namespace.run = interrupted
    monkeypatch.setattr(command, "parse", lambda _: namespace)

    assert ask(capsys, "facts") == (130, "", "")


def test_a_complaint_that_nobody_hears_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status still tells."""

    class Deaf:
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Deaf())

    assert complain("text") == 2


@pytest.mark.parametrize("arguments", [["decide"], ["validate"]])
def test_a_reader_that_left_ends_it_quietly(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 0, whatever was still to be said."""
    path = tmp_path / "lines"
    path.write_text('{"facts": {"platform": "cpu"}}\n' * 2000, encoding="utf-8")
    reading, writing = os.pipe()
    os.close(reading)

    with os.fdopen(writing, "w") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        status = main([*arguments, *([str(path)] if arguments == ["decide"] else [])])

    assert (status, capsys.readouterr().err) == (0, "")


def test_streams_that_cannot_be_reconfigured_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those that another program puts in the place of the real ones."""

    class Plain:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            return

    out = Plain()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        status = main(["decide", "/dev/null"])

    assert (status, out.text) == (0, "")


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m selector` has its statuses."""
    assert process("--version").out == f"attention-selector {__version__}\n"
    assert process("zzz").status == 2
