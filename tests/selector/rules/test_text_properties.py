from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from selector.rules.json_text import read_json
from selector.rules.nodes import Node, Plain, TextError
from selector.rules.text import decode
from selector.rules.yaml_text import read_yaml
from tests.selector.rules.texts import READERS, Reader, same

# A machine that is busy is no reason to fail.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_NUMBER_OF_1_2 = re.compile(r"[-+]?0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MARKS = st.sampled_from(
    [*"[]{}:,-?&*!|>%@`'\"#~ \n\t\r\\0.x", ": ", "- ", "\r\n", "---\n", "&a ", "*a", "!!", "<<: ", "1e", "\ufeff"]
)


def _values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Plain]:
    scalars: st.SearchStrategy[Plain] = st.none() | st.booleans() | _NUMBERS | texts
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
    )


def _reads_as_itself(text: str) -> bool:
    """Whether YAML 1.1, which PyYAML writes, and YAML 1.2 agree that the text needs no quotes when it has none."""
    return not _NUMBER_OF_1_2.fullmatch(text)


def _index(text: str, line: int, column: int) -> int:
    return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column - 1


def _nodes(node: Node) -> Iterator[tuple[str | None, Node]]:
    """Give every node below one, each with the key that leads to it."""
    children: list[tuple[str | None, Node]] = []
    if isinstance(node.value, dict):
        children = list(node.value.items())
    elif isinstance(node.value, list):
        children = [(None, child) for child in node.value]
    for key, child in children:
        yield key, child
        yield from _nodes(child)


@given(_values(st.text()), st.sampled_from([None, 0, 1, 3]), st.booleans())
@_PATIENT
def test_json_is_read_as_the_standard_library_reads_it(value: Plain, indent: int | None, ascii_only: bool) -> None:
    """Whatever JSON writes is read to the same values of the same types."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert same(read_json(text, "f").plain(), json.loads(text))


@given(_values(st.text(alphabet=st.characters(exclude_characters="\x85\u2028\u2029"))), st.sampled_from([None, 0, 2]))
@_PATIENT
def test_the_place_of_a_json_value_is_where_it_begins(value: Plain, indent: int | None) -> None:
    """What stands at the place of a value or a key reads as that value or key."""
    text = json.dumps(value, indent=indent, ensure_ascii=True)
    root = read_json(text, "f")

    for key, node in [(None, root), *_nodes(root)]:
        found, _ = json.JSONDecoder().raw_decode(text, _index(text, node.line, node.column))
        assert same(found, node.plain())
        if node.key is not None:
            assert json.JSONDecoder().raw_decode(text, _index(text, *node.key))[0] == key


@given(value=_values(st.text().filter(_reads_as_itself)), flow=st.booleans())
@_PATIENT
@example(value={"on": "off", "4:30": "1_000", "~": "null", "<<": "="}, flow=False)
def test_yaml_reads_back_what_pyyaml_writes(value: Plain, flow: bool) -> None:
    """Whatever PyYAML writes safely is read to the same values, in block and flow form."""
    text = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False)

    assert same(read_yaml(text, "f").plain(), value)


@given(_values(st.text(alphabet="abc")))
@_PATIENT
def test_the_place_of_a_yaml_value_is_where_it_begins(value: Plain) -> None:
    """What stands in the text from the place of a scalar on begins with that scalar, and a key with that key."""
    text = yaml.safe_dump(value, default_flow_style=False)
    root = read_yaml(text, "f")

    for key, node in _nodes(root):
        if isinstance(node.value, str):
            assert text[_index(text, node.line, node.column) :].lstrip("'").startswith(node.value)
        if node.key is not None and key:
            assert text.splitlines()[node.key[0] - 1][node.key[1] - 1 :].startswith(key)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(text=st.text() | st.lists(_MARKS, max_size=40).map("".join))
@settings(_PATIENT, max_examples=400)
def test_no_text_raises_anything_but_a_placed_problem(read: Reader, text: str) -> None:
    """A text is read, or refused with one problem of the file that is asked about."""
    try:
        assert isinstance(read(text, "f"), Node)
    except TextError as error:
        (problem,) = error.problems
        assert problem.place.file == "f"
        assert 0 <= problem.place.line <= len(re.findall(r"\r\n|[\r\n\x85\u2028\u2029]", text)) + 2


@given(st.binary() | st.text().map(str.encode))
@_PATIENT
@example(b"\xef\xbb\xbf")
@example(b"\xff\xfe[\x00")
def test_no_bytes_raise_anything_but_a_placed_problem(data: bytes) -> None:
    """Bytes are text, or refused with one problem of the file."""
    try:
        text = decode(data, "f")
    except TextError as error:
        (problem,) = error.problems
        assert problem.code == "not-utf-8"
        assert problem.place.line <= data.count(b"\n") + 1
    else:
        assert text == data.decode("utf-8-sig")
