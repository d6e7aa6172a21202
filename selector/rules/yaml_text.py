"""Strict YAML: one pass over the parser's events, with nothing executed and nothing expanded without bound."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from selector.rules.nodes import MOST_LEVELS, OF_TEXTS, Bounds, Node, Scalar, TextError, failure
from selector.rules.problems import Place, shown

_Event = Any  # the stubs of PyYAML know neither anchors nor tags of events
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_MOST_DIGITS = 1000
_INT = re.compile(r"[-+]?[0-9]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "false": False}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, file: str, most: Bounds = OF_TEXTS) -> Node:
    """Read one YAML document into nodes.

    Booleans are `true` and `false` alone; duplicate keys, tags, keys that are no strings, several documents, more
    than 64 levels, and more bytes or values than `most` (aliases counted each time) are refused, each with its place.
    """
    if len(text) > most.bytes:
        raise failure(Place(file), "too-large", f"wanted at most {most.bytes} bytes, got more")
    bad = _NOT_ALLOWED.search(text)
    if bad is not None:
        message = f"character U+{ord(bad[0]):04X} is not allowed in YAML"
        raise failure(_place(text, bad.start(), file), "yaml-syntax", message)
    try:
        return _Composer(text, file, most.nodes).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        raise failure(place, "yaml-syntax", _sentence(error.problem or str(error)), _yaml_hint(text, place)) from error
    except yaml.YAMLError as error:
        raise failure(Place(file), "yaml-syntax", _sentence(str(error))) from error


def _place(text: str, index: int, file: str) -> Place:
    """Find line and column of a character; a line ends as YAML says, with CR, LF or both."""
    ends = [match.end() for match in _LINE_END.finditer(text, 0, index)]
    return Place(file, len(ends) + 1, index - (ends[-1] if ends else 0) + 1)


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _yaml_hint(text: str, place: Place) -> str | None:
    lines = text.splitlines()
    line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    return "indent with spaces: YAML allows no tab there" if "\t" in line else None


class _Composer:
    """One pass over the events of the parser, so that depth and size are known before anything is built."""

    def __init__(self, text: str, file: str, most: int) -> None:
        self.file = file
        self.most = most
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self.anchors: dict[str, Node | None] = {}
        self.count = 0

    def document(self) -> Node:
        next(self.events)  # the start of the stream
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise failure(Place(self.file, 1, 1), "empty", "wanted a mapping, got an empty file")
        node = self.node(next(self.events), 1)
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fail(event, "several-documents", "wanted one YAML document, got a second one")
        return node

    def fail(self, event: _Event, code: str, message: str, hint: str | None = None) -> TextError:
        mark = event.start_mark
        return failure(Place(self.file, mark.line + 1, mark.column + 1), code, message, hint)

    def node(self, event: _Event, level: int, key: tuple[int, int] | None = None) -> Node:
        if level > MOST_LEVELS:
            raise self.fail(event, "too-deep", f"wanted at most {MOST_LEVELS} levels, got more")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, level, key)
        self.counted(event, 1)
        if event.tag is not None:
            raise self.fail(event, "tag", f"tags are not allowed, got `{shown(event.tag)}`")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self.scalar(event), line, column, key, self.file)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node(self.sequence(level), line, column, key, self.file)
        else:
            node = Node(self.mapping(level), line, column, key, self.file)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def counted(self, event: _Event, more: int) -> None:
        self.count += more
        if self.count > self.most:
            raise self.fail(event, "too-large", f"wanted at most {self.most} values, got more")

    def alias(self, event: _Event, level: int, key: tuple[int, int] | None) -> Node:
        target = self.anchors.get(event.anchor)
        if target is None:
            said = "an alias of itself" if event.anchor in self.anchors else "an alias without an anchor"
            raise self.fail(event, "alias", f"`*{shown(event.anchor)}` is {said}")
        size, levels = _extent(target)
        self.counted(event, size)
        if level + levels - 1 > MOST_LEVELS:
            raise self.fail(event, "too-deep", f"wanted at most {MOST_LEVELS} levels, got more")
        return Node(target.value, target.line, target.column, key, self.file)

    def sequence(self, level: int) -> list[Node]:
        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, level + 1))
        return items

    def mapping(self, level: int) -> dict[str, Node]:
        items: dict[str, Node] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            name = self.name(event)
            position = (event.start_mark.line + 1, event.start_mark.column + 1)
            if name in items:
                first = items[name].key or (0, 0)
                message = f"key `{shown(name)}` stands twice"
                raise self.fail(event, "duplicate-key", message, f"the first one is in line {first[0]}")
            items[name] = self.node(next(self.events), level + 1, position)
        return items

    def name(self, event: _Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            raise self.fail(event, "key-type", "wanted a string as key, got a list, a mapping, an alias or a tag")
        value = self.scalar(event)
        if not isinstance(value, str):
            raise self.fail(event, "key-type", f"wanted a string as key, got {shown(value)}", "quote it")
        self.counted(event, 1)
        if event.anchor is not None:
            mark: Any = event.start_mark
            self.anchors[event.anchor] = Node(value, mark.line + 1, mark.column + 1, file=self.file)
        return value

    def scalar(self, event: _Event) -> Scalar:
        text: str = event.value
        if not event.implicit[0]:
            return text
        try:
            return scalar_of(text)
        except ValueError as error:
            raise self.fail(event, "number", f"the number is too large: {len(text)} digits") from error


def scalar_of(text: str) -> Scalar:
    """Give what a scalar without quotes stands for. Raises `ValueError` for a number of more digits than are read."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if len(text) > _MOST_DIGITS and (_INT.match(text) or _HEX.match(text)):
        raise ValueError(text)
    if _INT.match(text):
        return int(text)
    if _HEX.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    if _NOT_FINITE.match(text):
        return math.nan if text[-1] in "nN" else math.copysign(math.inf, -1 if text[0] == "-" else 1)
    return text


def _extent(node: Node) -> tuple[int, int]:
    """Count the values below a node, itself included, and the levels they span."""
    children = list(node.value.values()) if isinstance(node.value, dict) else node.value
    if not isinstance(children, list):
        return 1, 1
    extents = [_extent(child) for child in children]
    return 1 + sum(size for size, _ in extents), 1 + max((levels for _, levels in extents), default=0)
