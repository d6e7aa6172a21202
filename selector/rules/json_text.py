"""Strict JSON (RFC 8259) with the place of every value."""

from __future__ import annotations

import bisect
import json
import math
import re

from selector.rules.nodes import MOST_LEVELS, OF_TEXTS, Bounds, Node, Scalar, TextError, failure
from selector.rules.problems import Place, shown

_scanstring = json.decoder.scanstring  # type: ignore[attr-defined]
_STRING_PROBLEMS = {
    "Unterminated string starting at": "the string has no end",
    "Invalid control character at": "a control character stands in the string: write it as an escape",
}
_SPACE = re.compile(r"[ \t\n\r]*")
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}


def read_json(text: str, file: str, most: Bounds = OF_TEXTS) -> Node:
    """Read one JSON text (RFC 8259) into nodes.

    NaN, infinities, duplicate keys, more than 64 levels, and more bytes or values than `most` are refused.
    """
    if len(text) > most.bytes:
        raise failure(Place(file), "too-large", f"wanted at most {most.bytes} bytes, got more")
    scanner = _Scanner(text, file, most.nodes)
    node, end = scanner.value(scanner.skip(0), 1)
    end = scanner.skip(end)
    if end != len(text):
        raise scanner.fail(end, "wanted the end of the text after the value")
    return node


class _Scanner:
    def __init__(self, text: str, file: str, most: int) -> None:
        self.text = text
        self.file = file
        self.most = most
        self.count = 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def mark(self, index: int) -> tuple[int, int]:
        line = bisect.bisect_right(self.starts, index)
        return line, index - self.starts[line - 1] + 1

    def fail(self, index: int, message: str, code: str = "json-syntax", hint: str | None = None) -> TextError:
        return failure(Place(self.file, *self.mark(index)), code, message, hint)

    def skip(self, index: int) -> int:
        match = _SPACE.match(self.text, index)
        return match.end() if match else index

    def value(self, index: int, level: int, key: tuple[int, int] | None = None) -> tuple[Node, int]:
        if level > MOST_LEVELS:
            raise self.fail(index, f"wanted at most {MOST_LEVELS} levels, got more", "too-deep")
        self.count += 1
        if self.count > self.most:
            raise self.fail(index, f"wanted at most {self.most} values, got more", "too-large")
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
        return Node(value, *self.mark(index), key, self.file), end

    def string(self, index: int) -> tuple[str, int]:
        try:
            text, end = _scanstring(self.text, index + 1, True)  # noqa: FBT003 - the standard library's own
        except json.JSONDecodeError as error:
            raise self.fail(error.pos, _STRING_PROBLEMS.get(error.msg, error.msg.lower())) from error
        return text, end

    def plain(self, index: int) -> tuple[Scalar, int]:
        for word, value in _WORDS.items():
            if self.text.startswith(word, index):
                return value, index + len(word)
        match = _JSON_NUMBER.match(self.text, index)
        if match is None:
            rest = self.text[index : index + 12]
            got = f"`{shown(rest)}`" if rest else "the end of the text"
            raise self.fail(index, f"wanted a value, got {got}")
        try:
            number = float(match[0]) if match[2] or match[3] else int(match[0])
        except ValueError as error:
            raise self.fail(index, f"the number is too large: {len(match[0])} digits", "number") from error
        if isinstance(number, float) and not math.isfinite(number):
            raise self.fail(index, f"wanted a finite number, got {shown(match[0])}", "number")
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
            raise self.fail(index, f"wanted a value after the comma, got `{close}`")
        return index
