from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from selector.facts import read_machine, read_request
from selector.faults import Fault, place
from selector.rules.problems import Place, Problem
from selector.ruleset import shipped
from selector.schemas.explaining import faults_of
from selector.structure import schema_faults
from tests.selector.conftest import CPU


def told(name: str, value: object) -> list[str]:
    """Give every problem of a document as a person reads it."""
    return [str(problem) for problem in place(schema_faults(name, value), name)]


def line(name: str, path: str, code: str, message: str, hint: str | None) -> str:
    """Write one problem as it is shown."""
    return str(Problem(Place(name, path=path), code, message, hint))


FACTS: list[tuple[object, str, str, str, str | None]] = [
    ("cuda", "", "wrong-type", "wanted a mapping of facts, got the string `cuda`", None),
    (
        {"platform": "cudda"},
        "platform",
        "bad-value",
        "`platform`: wanted one of cuda, rocm, xpu, npu, musa, cpu, got `cudda`",
        "did you mean `cuda`?",
    ),
    ({"arch": 90}, "arch", "bad-value", "`arch`: wanted a string, got the number 90", None),
    ({"arch": ""}, "arch", "bad-value", "`arch`: wanted a string, got an empty one", None),
    (
        {"platform": "cuda", "arch": "gfx942"},
        "arch",
        "bad-value",
        "`arch`: wanted a value such as `sm_90` on cuda, got `gfx942`",
        None,
    ),
    ({"cudnn": 0}, "cudnn", "bad-value", "`cudnn`: wanted an integer of at least 1, got 0", None),
    ({"cudnn": "9.5"}, "cudnn", "bad-value", "`cudnn`: wanted an integer, got the string `9.5`", None),
    (
        {"driver": 580.65},
        "driver",
        "wrong-type",
        "`driver`: wanted a version as a string, got the number 580.65",
        "quote it",
    ),
    (
        {"packages": ["flashinfer"]},
        "packages",
        "wrong-type",
        "`packages`: wanted a mapping of package names to versions, got a list",
        None,
    ),
    (
        {"packages": {"flash-attn": 2.8}},
        "packages.flash-attn",
        "bad-value",
        "`packages.flash-attn`: wanted a version as a string, got the number 2.8",
        "quote it",
    ),
    ({"switches": []}, "switches", "wrong-type", "`switches`: wanted a mapping, got a list", None),
    ({"devices": {}}, "devices", "wrong-type", "`devices`: wanted a list of mappings, got a mapping", None),
    (
        {"arch": "sm_90", "devices": []},
        "arch",
        "given-twice",
        "`arch` and `devices` both say what the GPU is",
        "leave one of them out",
    ),
    (
        {"devices": [{"arch": "sm_90"}, {"arch": 5}]},
        "devices[1].arch",
        "bad-value",
        "`arch`: wanted a string, got the number 5",
        None,
    ),
]


@pytest.mark.parametrize(("facts", "path", "code", "message", "hint"), FACTS)
def test_says_what_is_wrong_with_facts(facts: object, path: str, code: str, message: str, hint: str | None) -> None:
    """In the words of the models, which take them from the vocabulary."""
    faults, _ = read_machine(facts, shipped().vocabulary)

    assert told("facts", facts) == [line("facts", path, code, message, hint)]
    assert schema_faults("facts", facts) == faults


@pytest.mark.parametrize("facts", [{"arch": "SM_90"}, {"platform": "rocm", "arch": "sm_90a"}])
def test_any_text_is_an_architecture_away_from_cuda(facts: object) -> None:
    """Other makers name their architectures as they like."""
    faults, _ = read_machine(facts, shipped().vocabulary)

    assert faults == []
    assert schema_faults("facts", facts) == []


REQUESTS: list[object] = [
    [],
    {"role": ""},
    {"head_dim": "symbolik"},
    {"head_dim": 0},
    {"head_dim": True},
    {"mask_free": 1},
    {"dtype": "float61"},
    {"causal": "top"},
    {"causal": 1},
    {"seq_len_q": -1},
    {"call": "none"},
    {"call": {"mask": "additiv"}},
    {"call": {"causal": True}},
    {"call": {"seq_len_kv": -1}},
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_told_in_the_words_of_the_models(request_: object) -> None:
    """A line of `decide` holds it under `request`."""
    faults, _ = read_request(request_, shipped().vocabulary, ("request",))

    assert faults
    assert schema_faults("decide-line", {"facts": CPU, "request": request_}) == faults


OTHERS: list[tuple[str, object, str, str, str, str | None]] = [
    ("decide-line", {"facts": None}, "facts", "wrong-type", "`facts`: wanted a mapping of facts, got null", None),
    ("decide-line", {"env": []}, "env", "wrong-type", "`env`: wanted a mapping of variables, got a list", None),
    (
        "decide-line",
        {"backend": 5},
        "backend",
        "wrong-type",
        "`backend`: wanted a backend name, got the number 5",
        None,
    ),
    (
        "decide-line",
        {"policy": "strickt"},
        "policy",
        "bad-value",
        "`policy`: wanted one of fallback, strict, got `strickt`",
        "did you mean `strict`?",
    ),
    (
        "decide-line",
        {"policy": 5},
        "policy",
        "wrong-type",
        "`policy`: wanted one of fallback, strict, got the number 5",
        None,
    ),
    ("decide-line", {"faces": {}}, "faces", "unknown-key", "no key `faces` here", "did you mean `facts`?"),
    ("facts", {"pakages": {}}, "pakages", "unknown-key", "no key `pakages` here", "did you mean `packages`?"),
    (
        "facts",
        {"gpus": []},
        "gpus",
        "unknown-key",
        "no key `gpus` here",
        "known here: platform, arch, cudnn, driver, torch, packages, switches, devices, notes, unusable",
    ),
    ("facts", {"devices": [5]}, "devices[0]", "wrong-type", "wanted a mapping, got the number 5", None),
    (
        "rule-table",
        {"table": "explicit", "rows": []},
        "rows",
        "bad-size",
        "`rows`: wanted at least 1 entry, got 0",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "A", "because": "", "when": {"head_dim": [], "arch": {"unknown": "match"}}}]},
        "rows[0].id",
        "bad-id",
        "row id `A` is not kebab-case (small letters, digits and single hyphens)",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "A", "because": "", "when": {"head_dim": [], "arch": {"unknown": "match"}}}]},
        "rows[0].when.arch",
        "empty-matcher",
        "`arch`: wanted a matcher, got none",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "A", "because": "", "when": {"head_dim": [], "arch": {"unknown": "match"}}}]},
        "rows[0].when.head_dim",
        "bad-size",
        "`head_dim`: wanted at least 1 entry, got 0",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "A", "because": "", "when": {"head_dim": [], "arch": {"unknown": "match"}}}]},
        "rows[0].because",
        "wrong-type",
        "`because`: wanted a string, got an empty string",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "A", "because": "", "when": {"head_dim": [], "arch": {"unknown": "match"}}}]},
        "rows[0]",
        "one-action",
        "wanted exactly one of use, substitute, refuse, entry",
        None,
    ),
    (
        "rule-table",
        {"rows": [{"id": "a", "because": "b", "use": "X", "refuse": "y", "when": {"cudnn": {"min": [], "maxi": 1}}}]},
        "rows[0].when.cudnn.min",
        "wrong-type",
        "`min`: wanted an integer or a string, got a list",
        None,
    ),
    (
        "rule-table",
        {"rows": [{"id": "a", "because": "b", "use": "X", "refuse": "y", "when": {"cudnn": {"min": [], "maxi": 1}}}]},
        "rows[0].when.cudnn.maxi",
        "unknown-key",
        "no key `maxi` here",
        "did you mean `max`?",
    ),
    (
        "rule-table",
        {"rows": [{"id": "a", "because": "b", "use": "X", "refuse": "y", "when": {"cudnn": {"min": [], "maxi": 1}}}]},
        "rows[0].refuse",
        "one-action",
        "wanted exactly one of use, substitute, refuse, entry",
        None,
    ),
    (
        "rule-table",
        {"rows": [{"id": "a", "because": "b", "use": "X", "refuse": "y", "when": {"cudnn": {"min": [], "maxi": 1}}}]},
        "",
        "missing-key",
        "wanted the key `table`, which is not there",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "a", "because": "b", "use": "X", "when": {"cudnn": {"present": False}}}]},
        "rows[0].when.cudnn.present",
        "bad-value",
        "`present`: wanted true, got false",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "a", "because": "b", "use": "X", "when": {"head_dim": {"multiple_of": 0}}}]},
        "rows[0].when.head_dim.multiple_of",
        "out-of-range",
        "`multiple_of`: wanted an integer of at least 1, got the number 0",
        None,
    ),
    (
        "rule-table",
        {"table": "call", "rows": [{"id": "a", "because": "b", "use": "X", "when": {"mask_free": "yes"}}]},
        "rows[0].when.mask_free",
        "bad-value",
        "`mask_free`: wanted true or false, got the string `yes`",
        None,
    ),
    (
        "vocabulary",
        {"facts": {"any": {"type": "string", "group": "call", "about": "A."}}},
        "facts.any",
        "bad-name",
        "`any` is no name for a fact: wanted small letters, digits, `_`, `-` and dots, and none of the reserved words",
        None,
    ),
    (
        "scenarios",
        {"scenarios": [{"id": "a", "expect": {"warnings": -0.5, "error": "refuse"}}]},
        "scenarios[0].expect.warnings",
        "wrong-type",
        "`warnings`: wanted an integer or a list, got the number -0.5",
        None,
    ),
    (
        "scenarios",
        {"scenarios": [{"id": "a", "expect": {"warnings": -0.5, "error": "refuse"}}]},
        "scenarios[0].expect.error",
        "bad-value",
        "`error`: wanted one of refused, invalid, mutually_exclusive, got `refuse`",
        "did you mean `refused`?",
    ),
    (
        "decision",
        {"digest": "4F"},
        "digest",
        "bad-value",
        "`digest`: wanted 64 hexadecimal digits, got the string `4F`",
        None,
    ),
]


@pytest.mark.parametrize(("name", "value", "path", "code", "message", "hint"), OTHERS)
def test_says_what_is_wrong_with_other_files(
    name: str, value: object, path: str, code: str, message: str, hint: str | None
) -> None:
    """Every kind of fault, for every kind of file; there may be others in the same file."""
    assert line(name, path, code, message, hint) in told(name, value)


# --- schemas of others ---


def test_a_keyword_without_words_is_told_plainly() -> None:
    """A schema that is none of ours, or one whose fact has other words by now, still gets a sentence."""
    (number,) = Draft202012Validator({"multipleOf": 2}).iter_errors(3)
    (text,) = Draft202012Validator({"pattern": "b", "x-fact": "role", "errorMessage": "wanted a b"}).iter_errors("a")

    assert list(faults_of(number)) == [Fault((), "bad-value", "wanted another value, got the number 3")]
    assert list(faults_of(text)) == [Fault((), "wrong-type", "wanted a b, got the string `a`")]
