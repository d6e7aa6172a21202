"""What may stand on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from selector.command import log_options, serving_options
from selector.command.usage import CONFIG_FLAG, UsageError, take_dotted
from selector.rules.problems import nearest, shown

_COMMANDS = (
    "decide",
    "explain",
    "facts",
    "log",
    "replay",
    "test",
    "validate",
    "rules",
    "init",
    "schema",
    "lint",
    "table",
    "diff",
    "selftest",
    "serve",
)


_Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # noqa: SLF001 - what add_subparsers returns has no public name


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; `dotted` holds the ``--diffusion-attention-config.path value`` pairs in their order.

    Raises `UsageError` that names the nearest option. ``--help`` prints and exits.
    """
    plain, dotted = take_dotted(arguments)
    if plain and not plain[0].startswith("-") and plain[0] not in _COMMANDS:
        hint = nearest(plain[0], _COMMANDS) or f"commands: {', '.join(_COMMANDS)}"
        raise UsageError(f"no command `{shown(plain[0])}`; {hint}")
    parser = _parser()
    options, rest = parser.parse_known_args(plain)
    if rest:
        raise UsageError(_unknown(rest[0], parser, getattr(options, "command", None)))
    if dotted and not hasattr(options, "config"):
        raise UsageError(f"`{options.command}` takes no {CONFIG_FLAG}.…")
    options.dotted = dotted
    return options


def _unknown(argument: str, parser: argparse.ArgumentParser, command: str | None) -> str:
    subparsers = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    chosen = subparsers.choices.get(command) if command else parser
    known = list(chosen._option_string_actions) if chosen else []  # noqa: SLF001
    hint = nearest(argument.partition("=")[0], known)
    return f"unrecognized argument `{argument}`" + (f"; {hint}" if hint else "")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="attention-selector", description="Which attention kernel should run here, and why.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=_version())
    commands: _Commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for add in (
        _decide,
        _explain,
        _facts,
        _log,
        _replay,
        _test,
        _validate,
        _rule_set,
        _init,
        _schema,
        _lint,
        _diff,
        _table,
        _selftest,
        _serve,
    ):
        add(commands)
    return parser


def _version() -> str:
    from selector import __version__

    return f"attention-selector {__version__}"


def _add(commands: _Commands, name: str, text: str, module: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    command.set_defaults(run=_runner(module))
    return command


def _runner(module: str) -> object:
    def run(options: argparse.Namespace) -> int:
        import importlib  # each command loads its own code alone

        status: int = importlib.import_module(f"selector.command.{module}").run(options)
        return status

    return run


def _rules(command: argparse.ArgumentParser) -> None:
    text = (
        "folder whose rule files are laid over the shipped ones, or a rule set in one file; may be given several times"
    )
    command.add_argument("--rules", action="append", metavar="DIR|FILE", help=text)


def _config(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("config", f"also as {CONFIG_FLAG}.PATH VALUE, PATH dotted")
    group.add_argument(
        CONFIG_FLAG, dest="config", metavar="JSON|FILE", help="attention config as JSON, or a YAML or JSON file"
    )
    group.add_argument(
        "--diffusion-attention-backend",
        dest="backend",
        metavar="BACKEND",
        help="shorthand for the config's default backend",
    )
    group.add_argument("--policy", metavar="fallback|strict", help="whether a configured backend may be substituted")


def _decide(commands: _Commands) -> None:
    command = _add(commands, "decide", "Answer JSON lines, one decision each, in order.", "decide")
    command.add_argument("file", nargs="?", default="-", metavar="FILE", help="JSON lines to read; - is standard input")
    command.add_argument("--trace", action="store_true", help="add every table, row and condition that was looked at")
    command.add_argument(
        "--device", type=int, default=0, metavar="N", help="GPU to decide for where facts list several"
    )
    command.add_argument("--log", metavar="FILE", help="add each decision to this log, which `log` and `replay` read")
    _rules(command)


def _explain(commands: _Commands) -> None:
    command = _add(commands, "explain", "Say what would run for one layer, and why not the others.", "explain")
    command.add_argument("--facts", metavar="FILE", help="facts of a machine, YAML or JSON (default: this machine)")
    command.add_argument(
        "--device", type=int, default=0, metavar="N", help="GPU to decide for where facts list several"
    )
    layer = command.add_argument_group("layer")
    layer.add_argument("--role", metavar="ROLE", help="what the layer does (default: self)")
    layer.add_argument("--role-category", metavar="CATEGORY")
    layer.add_argument("--model", metavar="NAME", help="pipeline class or hub id; supplies what is known of the layer")
    layer.add_argument("--head-dim", metavar="N|symbolic")
    mask = layer.add_mutually_exclusive_group()
    mask.add_argument(
        "--mask-free", dest="mask_free", action="store_true", default=None, help="the model never passes a mask"
    )
    mask.add_argument("--masked", dest="mask_free", action="store_false", help="the model may pass a mask")
    layer.add_argument("--dtype", metavar="DTYPE")
    layer.add_argument(
        "--causal",
        nargs="?",
        const="true",
        metavar="top_left|bottom_right",
        help="causal, with its alignment where known",
    )
    layer.add_argument("--heads", dest="num_heads", metavar="N")
    layer.add_argument("--kv-heads", dest="num_kv_heads", metavar="N")
    layer.add_argument("--seq-len", dest="seq_len_q", metavar="N")
    layer.add_argument("--kv-len", dest="seq_len_kv", metavar="N")
    layer.add_argument("--compile", action="store_true", default=None, help="the layer runs under torch.compile")
    layer.add_argument("--mask", metavar="KIND", help="ask about a call with this kind of mask too")
    command.add_argument("--format", choices=("tree", "json", "mermaid"), default="tree")
    command.add_argument("--why-not", metavar="BACKEND", help="say what stands in the way of this backend")
    command.add_argument(
        "--any", action="store_true", help="with --why-not, also changes that nobody makes on a machine as it is"
    )
    command.add_argument(
        "--what-if", action="append", default=[], metavar="FACT=VALUE", help="compare with a world where a fact differs"
    )
    _rules(command)
    _config(command)


def _facts(commands: _Commands) -> None:
    command = _add(commands, "facts", "Write the facts of this machine, to be saved, edited and given back.", "facts")
    command.add_argument(
        "--deep", action="store_true", help="import each package in a process of its own, and say why one is not usable"
    )
    command.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="time limit of each import (default: 60)"
    )
    command.add_argument("--format", choices=("yaml", "json"), default="yaml")
    _rules(command)


def _log(commands: _Commands) -> None:
    command = _add(commands, "log", "Tell which decisions a log holds, or how many of each kind.", "log")
    log_options.add(command)


def _replay(commands: _Commands) -> None:
    command = _add(
        commands, "replay", "Say which decisions of a log other rules would change, and by which row.", "replay"
    )
    command.add_argument("log", metavar="LOG", help="decision log to read, SQLite or JSON lines; - is standard input")
    command.add_argument("--format", choices=("text", "json"), default="text")
    command.add_argument(
        "--processes", type=int, metavar="N", help="processes that decide (default: one for each core)"
    )
    _rules(command)


def _test(commands: _Commands) -> None:
    command = _add(
        commands, "test", "Run scenarios against the rules, and tell how much of the rules they show.", "test"
    )
    command.add_argument(
        "paths",
        nargs="*",
        metavar="FILE|DIR",
        help="scenarios to run (default: those in tests/ below each folder of rules, or the shipped ones)",
    )
    command.add_argument("--coverage", action="store_true", help="tell what every row and condition did")
    command.add_argument(
        "--min-coverage", type=float, metavar="N", help="fail when less than N percent of rows or conditions are shown"
    )
    command.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML too")
    command.add_argument(
        "--generate", metavar="FILE", help="run nothing, but write a small set of scenarios for the rules"
    )
    command.add_argument("--format", choices=("text", "json"), default="text")
    _rules(command)


def _validate(commands: _Commands) -> None:
    command = _add(
        commands, "validate", "Check rules, facts and config, and show every problem with its place.", "validate"
    )
    command.add_argument(
        "--facts", action="append", default=[], metavar="FILE", help="facts file to check; may be given several times"
    )
    command.add_argument("--device", type=int, default=0, metavar="N")
    _rules(command)
    _config(command)


def _rule_set(commands: _Commands) -> None:
    command = _add(commands, "rules", "Tell which rules are loaded, and where each of them came from.", "rules")
    command.add_argument("--show", action="store_true", help="write all of it as one file that --rules takes")
    _rules(command)


def _init(commands: _Commands) -> None:
    command = _add(commands, "init", "Write a folder of rules to start from, with three worked edits.", "init")
    command.add_argument("folder", metavar="DIR", help="folder to write, which is not there yet or is empty")


def _schema(commands: _Commands) -> None:
    command = _add(commands, "schema", "Write a JSON Schema for editors; without a name, list them.", "schema")
    command.add_argument("name", nargs="?", metavar="NAME", help="schema to write, such as rule-table")
    _rules(command)


def _lint(commands: _Commands) -> None:
    command = _add(commands, "lint", "Prove over every situation what is wrong or doubtful about rules.", "lint")
    command.add_argument("--notes", action="store_true", help="tell what is only worth knowing, too")
    command.add_argument("--facts", metavar="FILE", help="facts that `until` is held against (default: this machine)")
    command.add_argument(
        "--steps", type=int, default=20_000, metavar="N", help="how much may be looked at for each question"
    )
    command.add_argument("--format", choices=("text", "json"), default="text")
    _rules(command)


def _diff(commands: _Commands) -> None:
    command = _add(commands, "diff", "Tell in which situations two rule sets decide differently.", "diff")
    text = "folder or file of rules, a revision with a path (HEAD~1:rules), or `shipped`"
    command.add_argument("old", metavar="OLD", help=text)
    command.add_argument("new", metavar="NEW", help=text)
    command.add_argument(
        "--fleet", nargs="+", default=[], metavar="FILE", help="facts of the machines that there are; only they count"
    )
    command.add_argument(
        "--steps", type=int, default=200_000, metavar="N", help="how much may be looked at for a table"
    )
    command.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def _table(commands: _Commands) -> None:
    command = _add(commands, "table", "Draw a rule table: what each row asks of each fact, and what it does.", "table")
    command.add_argument("name", metavar="NAME", help="table to draw, such as platform_default")
    command.add_argument("--format", choices=("terminal", "markdown", "html"), default="terminal")
    command.add_argument(
        "--effective", action="store_true", help="tell where each row wins: what the rows before it leave to it"
    )
    command.add_argument("--for", dest="machine", metavar="FACTS", help="leave out what is decided on this machine")
    command.add_argument(
        "--device", type=int, default=0, metavar="N", help="GPU to draw it for where facts list several"
    )
    _rules(command)


def _selftest(commands: _Commands) -> None:
    command = _add(
        commands, "selftest", "Compute attention with every backend that may run here, and check it.", "selftest"
    )
    command.add_argument("--backend", metavar="BACKEND", help="this one alone")
    command.add_argument("--provider", metavar="PROVIDER", help="this build alone")
    command.add_argument("--head-dim", type=int, action="append", default=[], metavar="N", help="several may be given")
    command.add_argument("--dtype", action="append", default=[], metavar="DTYPE", help="several may be given")
    command.add_argument("--check", action="append", default=[], metavar="NAME", help="several may be given")
    command.add_argument("--device", metavar="cpu|cuda:N", help="where to compute (default: the first GPU, if any)")
    command.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    _rules(command)


def _serve(commands: _Commands) -> None:
    command = _add(commands, "serve", "Answer over HTTP, with the words of the other commands.", "serve")
    serving_options.add(command)
    _rules(command)
