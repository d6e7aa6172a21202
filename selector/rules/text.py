"""Strict YAML and JSON: every value with its place, nothing executed, nothing expanded without bound."""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from selector.rules.problems import Place, Problem, ProblemsError, listing, shown

MOST_BYTES = 1 << 20
MOST_LEVELS = 64
MOST_NODES = 100_000

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]

_INT = re.compile(r"[-+]?[0-9]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "false": False}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands; `key` is where the key stands that leads to it, when it has one."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    column: int
    key: tuple[int, int] | None = None

    def plain(self) -> Plain:
        """Give the value without its places."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def at(self, file: str, path: str = "") -> Place:
        """Give the place of the value."""
        return Place(file, self.line, self.column, path)

    def key_at(self, file: str, path: str = "") -> Place:
        """Give the place of the key, or of the value where there is no key."""
        line, column = self.key or (self.line, self.column)
        return Place(file, line, column, path)


def follow(node: Node, path: tuple[str | int, ...]) -> Node:
    """Walk down as far as the path leads; the last node that exists is the answer."""
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            break
    return node


class TextError(ProblemsError):
    """A text that cannot be read as YAML or JSON."""


def _fail(place: Place, code: str, message: str, hint: str | None = None) -> TextError:
    return TextError([Problem(place, code, message, hint)])


def read_file(path: Path, name: str | None = None) -> Node:
    """Read a YAML or JSON file (by its suffix; JSON is read as JSON).

    Raises `TextError` with the place for whatever keeps it from being read: no such file, a directory, more than
    1 MiB, bytes that are not UTF-8, and all that `read_yaml` and `read_json` refuse.
    """
    name = name or str(path)
    text = decode(read_bytes(path, name), name)
    return read_json(text, name) if path.suffix == ".json" else read_yaml(text, name)


def read_bytes(path: Path, name: str) -> bytes:
    """Read at most 1 MiB; more, or a file that cannot be read, is a `TextError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _fail(Place(name), "unreadable", f"cannot read the file: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:  # a NUL byte or a lone surrogate in the name
        raise _fail(Place(shown(name)), "unreadable", f"cannot read the file: {error}") from error
    if len(data) > MOST_BYTES:
        raise _fail(Place(name), "too-large", f"wanted at most {MOST_BYTES} bytes, got more")
    return data


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8 (a byte-order mark is allowed), or say at which line the first bad byte stands."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise _fail(Place(name, line, column), "not-utf-8", f"wanted UTF-8, got byte 0x{data[error.start]:02x}") from error


# --- YAML ---------------------------------------------------------------------------------------------------------

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str, file: str) -> Node:
    """Read one YAML document into nodes.

    Booleans are `true` and `false` alone; duplicate keys, tags, keys that are no strings, several documents, more
    than 64 levels and more than 100,000 values (aliases counted each time) are refused, each with its place.
    """
    if len(text) > MOST_BYTES:
        raise _fail(Place(file), "too-large", f"wanted at most {MOST_BYTES} bytes, got more")
    try:
        return _Composer(text, file).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        raise _fail(place, "yaml-syntax", _sentence(error.problem or str(error)), _yaml_hint(text, place)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"character {error.character!r} is not allowed in YAML"
        raise _fail(Place(file, line, 1), "yaml-syntax", message) from error
    except yaml.YAMLError as error:
        raise _fail(Place(file), "yaml-syntax", _sentence(str(error))) from error


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _yaml_hint(text: str, place: Place) -> str | None:
    lines = text.splitlines()
    line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    return "indent with spaces: YAML allows no tab there" if "\t" in line else None


class _Composer:
    """One pass over the events of the parser, so that depth and size are known before anything is built."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self.anchors: dict[str, Node | None] = {}
        self.count = 0

    def document(self) -> Node:
        next(self.events)  # the start of the stream
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _fail(Place(self.file, 1, 1), "empty", "wanted a mapping, got an empty file")
        node = self.node(next(self.events), 1)
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fail(event, "several-documents", "wanted one YAML document, got a second one")
        return node

    def fail(self, event: yaml.Event, code: str, message: str, hint: str | None = None) -> TextError:
        mark = event.start_mark
        return _fail(Place(self.file, mark.line + 1, mark.column + 1), code, message, hint)

    def node(self, event: yaml.Event, level: int, key: tuple[int, int] | None = None) -> Node:
        if level > MOST_LEVELS:
            raise self.fail(event, "too-deep", f"wanted at most {MOST_LEVELS} levels, got more")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, level, key)
        self.counted(event, 1)
        if event.tag is not None:
            raise self.fail(event, "tag", f"tags are not allowed, got `{event.tag}`")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self.scalar(event), line, column, key)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node(self.sequence(level), line, column, key)
        else:
            node = Node(self.mapping(level), line, column, key)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def counted(self, event: yaml.Event, more: int) -> None:
        self.count += more
        if self.count > MOST_NODES:
            raise self.fail(event, "too-large", f"wanted at most {MOST_NODES} values, got more")

    def alias(self, event: yaml.AliasEvent, level: int, key: tuple[int, int] | None) -> Node:
        target = self.anchors.get(event.anchor)
        if target is None:
            said = "an alias of itself" if event.anchor in self.anchors else "an alias without an anchor"
            raise self.fail(event, "alias", f"`*{event.anchor}` is {said}")
        size, levels = _extent(target)
        self.counted(event, size)
        if level + levels - 1 > MOST_LEVELS:
            raise self.fail(event, "too-deep", f"wanted at most {MOST_LEVELS} levels, got more")
        return Node(target.value, target.line, target.column, key)

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

    def name(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            raise self.fail(event, "key-type", "wanted a string as key, got a list, a mapping, an alias or a tag")
        value = self.scalar(event)
        if not isinstance(value, str):
            raise self.fail(event, "key-type", f"wanted a string as key, got {shown(value)}", "quote it")
        self.counted(event, 1)
        return value

    def scalar(self, event: yaml.ScalarEvent) -> Scalar:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if text in _SPECIAL:
            return _SPECIAL[text]
        try:
            return _number(text)
        except ValueError as error:
            raise self.fail(event, "number", f"the number is too large: {len(text)} digits") from error


def _number(text: str) -> Scalar:
    if _INT.match(text):
        return int(text)
    if _HEX.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    if _NOT_FINITE.match(text):
        return math.nan if "n" == text[-1].lower() else math.copysign(math.inf, -1 if text[0] == "-" else 1)
    return text


def _extent(node: Node) -> tuple[int, int]:
    """Count the values below a node, itself included, and the levels they span."""
    children = list(node.value.values()) if isinstance(node.value, dict) else node.value
    if not isinstance(children, list):
        return 1, 1
    extents = [_extent(child) for child in children]
    return 1 + sum(size for size, _ in extents), 1 + max((levels for _, levels in extents), default=0)


# --- JSON ---------------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\n\r]*")
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}


def read_json(text: str, file: str) -> Node:
    """Read one JSON text (RFC 8259) into nodes; NaN, infinities, duplicate keys and more than 64 levels are refused."""
    if len(text) > MOST_BYTES:
        raise _fail(Place(file), "too-large", f"wanted at most {MOST_BYTES} bytes, got more")
    scanner = _Scanner(text, file)
    node, end = scanner.value(scanner.skip(0), 1)
    end = scanner.skip(end)
    if end != len(text):
        raise scanner.fail(end, "wanted the end of the text after the value")
    return node


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def mark(self, index: int) -> tuple[int, int]:
        line = bisect.bisect_right(self.starts, index)
        return line, index - self.starts[line - 1] + 1

    def fail(self, index: int, message: str, code: str = "json-syntax", hint: str | None = None) -> TextError:
        return _fail(Place(self.file, *self.mark(index)), code, message, hint)

    def skip(self, index: int) -> int:
        match = _SPACE.match(self.text, index)
        return match.end() if match else index

    def value(self, index: int, level: int, key: tuple[int, int] | None = None) -> tuple[Node, int]:
        if level > MOST_LEVELS:
            raise self.fail(index, f"wanted at most {MOST_LEVELS} levels, got more", "too-deep")
        start = self.text[index : index + 1]
        value: Scalar | list[Node] | dict[str, Node]
        if start == "{":
            value, end = self.mapping(index, level)
        elif start == "[":
            value, end = self.sequence(index, level)
        elif start == '"':
            value, end = self.string(index)
        else:
            value, end = self.plain(index)
        return Node(value, *self.mark(index), key), end

    def string(self, index: int) -> tuple[str, int]:
        try:
            text, end = json.decoder.scanstring(self.text, index + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            raise self.fail(error.pos, _sentence(error.msg.lower())) from error
        return text, end

    def plain(self, index: int) -> tuple[Scalar, int]:
        for word, value in _WORDS.items():
            if self.text.startswith(word, index):
                return value, index + len(word)
        match = _JSON_NUMBER.match(self.text, index)
        if match is None:
            got = shown(self.text[index : index + 12]) or "the end of the text"
            raise self.fail(index, f"wanted a value, got `{got}`")
        try:
            number = float(match[0]) if match[2] or match[3] else int(match[0])
        except ValueError as error:
            raise self.fail(index, f"the number is too large: {len(match[0])} digits", "number") from error
        if isinstance(number, float) and not math.isfinite(number):
            raise self.fail(index, f"wanted a finite number, got {match[0]}", "number")
        return number, match.end()

    def sequence(self, index: int, level: int) -> tuple[list[Node], int]:
        items: list[Node] = []
        index = self.skip(index + 1)
        while self.text[index : index + 1] != "]":
            node, index = self.value(index, level + 1)
            items.append(node)
            index = self.after(index, "]")
        return items, index + 1

    def mapping(self, index: int, level: int) -> tuple[dict[str, Node], int]:
        items: dict[str, Node] = {}
        index = self.skip(index + 1)
        while self.text[index : index + 1] != "}":
            if self.text[index : index + 1] != '"':
                raise self.fail(index, "wanted a key in double quotes")
            name, end = self.string(index)
            if name in items:
                raise self.fail(index, f"key `{shown(name)}` stands twice", "duplicate-key")
            colon = self.skip(end)
            if self.text[colon : colon + 1] != ":":
                raise self.fail(colon, "wanted `:` after the key")
            items[name], next_index = self.value(self.skip(colon + 1), level + 1, self.mark(index))
            index = self.after(next_index, "}")
        return items, index + 1

    def after(self, index: int, close: str) -> int:
        index = self.skip(index)
        start = self.text[index : index + 1]
        if start == close:
            return index
        if start != ",":
            raise self.fail(index, f"wanted `,` or `{close}`")
        index = self.skip(index + 1)
        if self.text[index : index + 1] == close:
            raise self.fail(index, f"wanted a value after the comma, got {listing([close])}")
        return index
