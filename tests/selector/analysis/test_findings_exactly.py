"""What a finding is as plain data."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector.analysis.findings import Finding
from selector.rules.problems import Place
from selector.rules.vocabulary import Value


@pytest.mark.parametrize("witness", [None, {}, {"platform": "cuda", "cudnn": None}])
def test_a_finding_is_given_as_plain_data(witness: Mapping[str, Value] | None) -> None:
    """With its place in parts; that nothing shows it is another thing than that any situation does."""
    found = Finding("shadowed", Place("t.yaml", 4, 5, "rows[1]"), "words", witness, ("mine/a", "mine/b"))

    assert found.to_dict() == {
        "code": "shadowed", "level": "error", "file": "t.yaml", "line": 4, "column": 5, "message": "words",
        "rows": ["mine/a", "mine/b"], "witness": witness,
    }  # fmt: skip
