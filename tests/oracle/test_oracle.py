"""The product held against the oracle, which was written from the contract and shares nothing with it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from selector.lines import Lines
from selector.ruleset import shipped
from tests.oracle.decide import decide
from tests.oracle.situations import situations
from tests.oracle.words import BACKENDS

Json: TypeAlias = Any
Line: TypeAlias = dict[str, Json]

CONFORMANCE = Path(__file__).parents[1] / "conformance"
# A warning that the product gives and the contract neither asks for nor forbids: of a `per_role` entry for a role that
# the named model does not have. It is left out where lines are compared.
BEYOND = "matches no role of"
# Lines that the two once answered differently.
SETTLED: dict[str, Line] = {
    # `arch` is, away from CUDA, any string, also one that looks like a misspelt `sm_NN`.
    "an architecture away from CUDA": {"facts": {"platform": "rocm", "arch": "sm_90a"}},
}


@pytest.fixture(scope="module")
def lines() -> Lines:
    """The product, as its command answers lines."""
    return Lines(shipped())


def answer(lines: Lines, line: Line) -> Line:
    """What the product says to one line, without the warnings that go beyond the contract."""
    given: Line = json.loads(lines.answer(json.dumps(line).encode()))
    given["error"] = given["error"]["code"] if given["error"] else None
    given["warnings"] = [warning for warning in given["warnings"] if BEYOND not in warning]
    return given


def seen(given: Line) -> Line:
    """What of an answer the contract fixes: of warnings whether there are any, of a refusal where it comes from."""
    error = given["error"]
    view = {"error": error, "backend": given["backend"], "log": given["log"]}
    if error is None:
        view["warned"] = bool(given["warnings"])
    if error in {None, "refused"}:
        view |= {"source": given["source"], "origin": given["origin"]}
    return view


def disagreements(lines: Lines, drawn: Iterable[Line]) -> Iterator[str]:
    """Each line that the two answer differently, with both answers."""
    for line in drawn:
        wanted, got = seen(decide(line)), seen(answer(lines, line))
        if wanted != got:
            yield f"{json.dumps(line)}\n  wanted {wanted}\n  got    {got}"


@pytest.mark.parametrize("name", ["selection", "call"])
def test_the_oracle_gives_the_decisions_that_every_build_must_give(name: str) -> None:
    """Every key of `expect` is met; warnings compare as none against some."""
    wrong = []

    for text in (CONFORMANCE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        expected = line["expect"]
        got = decide(line)
        if "warnings" in expected:
            expected["warnings"], got["warnings"] = bool(expected["warnings"]), bool(got["warnings"])
        if any(got[key] != value for key, value in expected.items()):
            wrong.append(f"{line['id']}: wanted {expected}, got {got}")

    assert not wrong, "\n".join(wrong)


def test_the_product_agrees_with_the_oracle(lines: Lines) -> None:
    """On 3,000 lines over the whole space of facts, requests, configurations and calls."""
    wrong = list(itertools.islice(disagreements(lines, situations(20260, 3_000)), 5))

    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_product_agrees_with_the_oracle_on_many_lines(lines: Lines, seed: int) -> None:
    """On 25,000 lines of each of four more seeds."""
    wrong = list(itertools.islice(disagreements(lines, situations(seed, 25_000)), 5))

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in SETTLED.items()])
def test_a_disagreement_that_was_settled(lines: Lines, line: Line) -> None:
    """A line that was answered differently is answered alike."""
    wrong = list(disagreements(lines, [line]))

    assert not wrong, "\n".join(wrong)


def test_the_lines_of_a_seed_are_the_same_every_time() -> None:
    """A failure can be drawn again, and more lines begin with the same ones."""
    first, again = list(situations(3, 200)), list(situations(3, 300))

    assert first == again[:200]
    assert first != list(situations(4, 200))


def test_the_lines_reach_every_kind_of_answer() -> None:
    """Every backend by default where it can be one and by every form of configuration; every error."""
    answers = [decide(line) for line in situations(20260, 20_000)]
    found = Counter((given["backend"], given["origin"]) for given in answers if given["error"] is None)
    warned = Counter((given["backend"], bool(given["warnings"])) for given in answers if given["error"] is None)
    errors = Counter(given["error"] for given in answers)
    defaults = {"TORCH_SDPA", "CUDNN_ATTN", "FLASHINFER_ATTN", "FLASH_ATTN", "TRTLLM_ATTN"}

    assert {backend for backend, origin in found if origin == "platform"} == defaults
    assert {(backend, origin) for backend in BACKENDS for origin in ("config", "flag", "env")} <= set(found)
    assert {backend for backend, some in warned if not some} == set(BACKENDS)
    assert {backend for backend, some in warned if some} >= {"TORCH_SDPA", "CUDNN_ATTN", "FLASH_ATTN", "FLASH_ATTN_HUB"}
    assert set(errors) == {None, "refused", "invalid", "mutually_exclusive"}
    assert min(errors.values()) > 200
