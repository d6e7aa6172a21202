"""What commands read: the config in its three forms, and the layer from flags."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from selector.command import given
from selector.command.usage import CONFIG_FLAG, UsageError
from selector.rules.json_text import read_json
from selector.rules.nodes import Node, TextError
from selector.rules.problems import ConfigError, Place, Problem, shown
from selector.rules.text import read_file
from selector.rules.yaml_text import read_yaml
from selector.selecting import Selector
from selector.serving import Sourced

_LAYER = (
    "role", "role_category", "model", "head_dim", "mask_free", "dtype", "causal", "num_heads", "num_kv_heads",
    "seq_len_q", "seq_len_kv", "compile",
)  # fmt: skip
_TEXTS = ("role", "role_category", "model", "dtype")
_SIZE = re.compile(r"-?[0-9]{1,18}")
_WORDS = {"true": True, "false": False}


def selector(options: argparse.Namespace) -> Selector:
    """Build the selector that the flags ask for."""
    return Selector(
        rules=given.rules(options),
        facts=options.facts,
        device=options.device,
        config=config(options),
        backend=options.backend,
        policy=options.policy,
    )


def config(options: argparse.Namespace) -> Sourced | None:
    """Read the config: JSON or a file, and dotted flags laid into it. Raises `ConfigError` or `TextError`."""
    name, node = CONFIG_FLAG, None
    if options.config is not None:
        text: str = options.config
        if text.lstrip()[:1] in ("{", "[") or not text.strip():
            node = read_json(text, CONFIG_FLAG)
        else:
            name, node = text, read_file(Path(text))
    for path, value in options.dotted:
        node = _lay(node, path, value)
    return None if node is None else Sourced(name, node)


def _lay(node: Node | None, path: str, value: str) -> Node:
    """Put a dotted flag's value into the tree; a value that is there already is a contradiction."""
    root = node or Node({}, 0, 0)
    place = Place(f"{CONFIG_FLAG}.{shown(path)}")
    keys = path.split(".")
    if not all(keys):
        raise ConfigError([Problem(place, "bad-path", "wanted names joined with single dots")])
    here = root
    for key in keys[:-1]:
        if not isinstance(here.value, dict):
            break
        here = here.value.setdefault(key, Node({}, 0, 0, (0, 0)))
    if not isinstance(here.value, dict) or keys[-1] in here.value:
        raise ConfigError(
            [Problem(place, "given-twice", "the config says something else there already", "leave one of the two out")]
        )
    here.value[keys[-1]] = Node(_scalar(value), 0, 0, (0, 0))
    return root


def _scalar(text: str) -> str | int | float | bool | None:
    """Read a value as YAML reads a scalar; what YAML cannot read is a string."""
    try:
        value = read_yaml(text, CONFIG_FLAG).value
    except TextError:
        return text
    return text if isinstance(value, dict | list) else value


def request(options: argparse.Namespace) -> dict[str, object]:
    """Collect the facts of the layer from flags; what is no number stays text, and is told as such."""
    given = {name: getattr(options, name) for name in _LAYER}
    asked: dict[str, object] = {name: _flag(name, value) for name, value in given.items() if value is not None}
    if options.mask is not None:
        call = {"mask": options.mask, "causal": _call_causal(asked)}
        asked["call"] = call | {name: asked[name] for name in ("dtype", "seq_len_q", "seq_len_kv") if name in asked}
    return asked


def _call_causal(asked: Mapping[str, object]) -> object:
    """Give the alignment of a causal call; without one it must not matter."""
    causal = asked.get("causal")
    if causal is not True:
        return causal if isinstance(causal, str) else None
    if asked.get("seq_len_q") is None or asked.get("seq_len_q") != asked.get("seq_len_kv"):
        raise UsageError("`--causal` beside `--mask` needs its alignment (top_left or bottom_right) or equal lengths")
    return "top_left"


def _flag(name: str, value: object) -> object:
    if not isinstance(value, str) or name in _TEXTS:
        return value
    return int(value) if _SIZE.fullmatch(value) else _WORDS.get(value, value)


def read_change(text: str) -> tuple[str, object]:
    """Read ``fact=value`` of ``--what-if``; the value is read as YAML reads a scalar. Raises `UsageError`."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UsageError(f"`--what-if`: wanted fact=value, got `{shown(text)}`")
    return name.strip(), _scalar(value.strip())
