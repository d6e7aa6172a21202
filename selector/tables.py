"""One table by itself: read, asked about plain mappings, and bound to answers of one's own.

```python
decider = read_table(vocabulary, table)  # YAML or JSON text
which = bind(decider, [row.id for row in decider.table.rows])
which({"sm_major": 9, "head_dim": 128})
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from selector.facts import plain_facts
from selector.faults import place
from selector.rules.compiled import Guard
from selector.rules.deciding import Decider
from selector.rules.fields import Source
from selector.rules.nodes import OF_RULES
from selector.rules.problems import FactsError, TableError
from selector.rules.tables import TableReader
from selector.rules.vocabulary import Value
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary
from selector.rules.yaml_text import read_yaml

Answer = TypeVar("Answer")
MOST_KNOWN = 4_096
"""How many texts of a fact are remembered as valid."""


def read_table(vocabulary: str, table: str, name: str = "table") -> Decider:
    """Read a table over the facts of a vocabulary, both as YAML or JSON text, with every check of the rule language.

    Its targets are names without a meaning: nothing is known of what they need. Raises `TableError` with every problem,
    and `TextError` where a text is neither YAML nor JSON.
    """
    words = Source("vocabulary")
    known = read_vocabulary(read_yaml(vocabulary, "vocabulary", OF_RULES), words)
    source = Source(name)
    read = TableReader(Reader(known, source)).read(read_yaml(table, name, OF_RULES))
    problems = [*words.problems, *source.problems]
    if problems or read is None:
        raise TableError(problems)
    return Decider(read, {}, known)


def facts_for(decider: Decider, mapping: object) -> dict[str, Value]:
    """Check a mapping of facts by their names (packages as ``packages.NAME``), and give what is known.

    Null is left out, as unknown, where it is no value of the fact. Raises `FactsError` with every problem: names that
    no fact has, values that are none of their fact's, and facts that the table requires and that are not known.
    """
    faults, facts = plain_facts(mapping, decider.vocabulary, decider.table.requires)
    if faults:
        raise FactsError(place(faults, "facts"))
    return facts


def bind(decider: Decider, answers: Sequence[Answer]) -> Callable[[Mapping[str, object]], Answer | None]:
    """Make a function of a plain mapping that gives the answer, one for each row, of the first row that holds.

    It checks like `facts_for` and raises what that does.
    """
    trusting = decider.bind(answers)
    known: dict[str, set[object]] = {name: set() for name in decider.table.requires}

    def others(mapping: Mapping[str, object]) -> Answer | None:
        facts = facts_for(decider, mapping)
        for name, values in known.items():
            value = facts[name]
            if isinstance(value, str):
                if len(values) >= MOST_KNOWN:
                    values.clear()
                values.add(value)
        return trusting(facts)

    return decider.bind(answers, Guard(others, known))  # type: ignore[return-value]  # guarded, it takes any value
