"""A small vocabulary with a fact of every type, and readers that give what was read and what was wrong."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from selector.rules.conditions import Condition, Truth
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place
from selector.rules.tables import Row, Table, TableReader
from selector.rules.vocabulary import Value, Vocabulary
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary
from selector.rules.yaml_text import read_yaml

Facts = Mapping[str, Value]

WORDS = """\
facts:
  platform: {type: string, group: machine, about: The stack., values: [cuda, rocm, cpu]}
  arch:
    type: string
    group: machine
    about: The GPU.
    order: capability
    "null": true
    null_word: no GPU
    pattern: {regex: "sm_[1-9][0-9]{1,2}|gfx[0-9]+", example: sm_90}
  cudnn: {type: integer, group: machine, about: Packed., order: cudnn, minimum: 1, "null": true}
  head_dim: {type: integer, group: request, about: Size., order: number, minimum: 1, special: [symbolic]}
  steps: {type: integer, group: request, about: Not ordered.}
  mask_free: {type: boolean, group: request, about: No mask.}
  causal: {type: boolean, group: request, about: Causal., "null": true}
  role: {type: string, group: request, about: Free text.}
  num_heads: {type: integer, group: request, about: Heads., order: number, minimum: 1}
  num_kv_heads: {type: integer, group: request, about: KV heads., order: number, minimum: 1}
  release: {type: version, group: request, about: A version that is never absent., order: pep440}
  label: {type: version, group: request, about: A version without an order.}
  mask: {type: string, group: call, about: The kind of mask., values: [none, key_padding]}
  backend: {type: string, group: config, about: The backend.}
derived:
  equal_heads: {relation: equal, of: [num_heads, num_kv_heads], about: As many.}
  heads_divide: {relation: divisible, of: [num_heads, num_kv_heads], about: Shared evenly.}
sets:
  blackwell: {fact: arch, values: [sm_10x, sm_120]}
  small: {fact: head_dim, values: [64, 128]}
  traced: {fact: head_dim, values: [symbolic, 256]}
packages:
  flash: {distributions: [flash-attn], modules: [flash_attn], symbols: ["flash_attn:f"], about: Flash.}
  sage: {distributions: [sageattention]}
"""


@functools.cache
def words() -> Vocabulary:
    """Give the small vocabulary."""
    found, problems = read_words(WORDS)
    assert problems == []
    return found


def read_words(text: str) -> tuple[Vocabulary, list[str]]:
    """Read a vocabulary; the second part is what was wrong, as it is printed."""
    source = Source("words.yaml")
    found = read_vocabulary(read_yaml(text, "words.yaml"), source)
    return found, [str(problem) for problem in source.problems]


def reader(vocabulary: Vocabulary | None = None, file: str = "t.yaml") -> Reader:
    """Give a reader of conditions for one file."""
    return Reader(vocabulary or words(), Source(file))


def node(text: str) -> Node:
    """Read a YAML text that is as it should be."""
    return read_yaml(text, "t.yaml")


def read_when(text: str) -> tuple[Condition, list[str]]:
    """Read a `when`; the second part is what was wrong."""
    own = reader()
    found = own.when(node(text), "rule")
    return found, [str(problem) for problem in own.source.problems]


def condition(text: str) -> Condition:
    """Read a `when` that is as it should be."""
    found, problems = read_when(text)
    assert problems == []
    return found


def problems_of_when(text: str) -> list[str]:
    """Give what is wrong with a `when`."""
    return read_when(text)[1]


def truth(text: str, facts: Facts) -> Truth:
    """Evaluate a `when` that is as it should be."""
    return condition(text).holds(facts)


def read_table(text: str) -> tuple[Table | None, list[str]]:
    """Read a table; the second part is what was wrong."""
    own = reader()
    found = TableReader(own).read(node(text))
    return found, [str(problem) for problem in own.source.problems]


def table(text: str) -> Table:
    """Read a table that is as it should be."""
    found, problems = read_table(text)
    assert problems == []
    assert found is not None
    return found


def row_with(when: Condition) -> Row:
    """Give a row with this condition that uses the target `A`."""
    return Row("t", "r", when, conditional=True, action="use", target="A", because="x", place=Place("t.yaml", 1, 1))
