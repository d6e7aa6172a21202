from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector import Selector
from selector.faults import Fault, place
from selector.rules.problems import ConfigError, Place, Problem
from selector.ruleset import RuleSet, load_rules
from selector.schemas.build import NAMES
from selector.structure import config_file_faults, schema_faults
from tests.selector.conftest import BACKENDS, CPU, overlay


def told(name: str, value: object) -> list[str]:
    """Give every problem of a document as a person reads it."""
    return [str(problem) for problem in place(schema_faults(name, value), name)]


def line(name: str, path: str, code: str, message: str, hint: str | None) -> str:
    """Write one problem as it is shown."""
    return str(Problem(Place(name, path=path), code, message, hint))


def trtllm(**blocks: object) -> dict[str, object]:
    """Write a config whose default is TRTLLM_ATTN with some blocks."""
    return {"default": {"backend": "TRTLLM_ATTN", **blocks}}


def test_says_everything_at_once() -> None:
    """In the order in which the schema has its keys, and within a mapping of any keys in that of the text."""
    config = {"x": 1, "per_role": {"b": 1, "a": {"backend": "CUDNN_ATTN", "quant": 5}}, "default": 2}

    assert [fault.path for fault in schema_faults("config", config)] == [
        ("default",), ("per_role", "b"), ("per_role", "a", "quant"), ("x",),
    ]  # fmt: skip


# --- what is never raised ---

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3)
            | st.integers()
            | st.sampled_from(["default", "per_role", "facts", "rows", "devices", "\ud800"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(NAMES), value=ANYTHING)
def test_never_raises(name: str, value: object) -> None:
    """Whatever plain data it is given: every fault has a sentence in small letters."""
    for fault in schema_faults(name, value):
        assert fault.message
        assert not fault.message[0].isupper() or fault.message.split()[0] in BACKENDS


def test_long_integers_are_told_by_their_size() -> None:
    """An integer too long for Python to write is no reason to fail."""
    number = int("0x" + "f" * 5000, 0)

    message = "`threshold`: wanted a number, got the number -0xffffffffff… of 20000 bits"
    path = "default.skip_softmax.threshold"

    assert told("config", trtllm(skip_softmax={"threshold": -number})) == [
        line("config", path, "wrong-type", message, None)
    ]
    assert told("facts", {"cudnn": number}) == []


def test_deep_and_large_data_is_refused_before_it_is_read() -> None:
    """With the bounds that every text is held to."""
    deep: object = "CUDNN_ATTN"
    for _ in range(10_000):
        deep = {"a": deep}

    assert told("config", {"per_role": deep}) == ["config: too-deep: wanted at most 64 levels, got more"]
    assert told("config", {"per_role": ["x"] * 100_001}) == [
        "config: too-large: wanted at most 100000 values, got more"
    ]


def test_as_many_levels_as_a_text_may_have_are_read() -> None:
    """Roles may nest as deep as that, and what is wrong at the bottom is told."""
    deep: object = 5
    for _ in range(62):
        deep = {"a": deep}

    (fault,) = schema_faults("config", {"per_role": deep})

    assert fault.path == ("per_role", *("a",) * 62)


def test_a_stack_that_is_nearly_full_is_told() -> None:
    """A caller deep in its own recursion gets an answer too."""
    deep: object = "CUDNN_ATTN"
    for _ in range(62):
        deep = {"a": deep}

    def below(levels: int) -> list[Fault]:
        return below(levels - 1) if levels else schema_faults("config", {"per_role": deep})

    assert [fault.code for fault in below(700)] == ["too-deep"]


def test_very_many_faults_are_cut() -> None:
    """After 200, and the last one says so."""
    faults = schema_faults("config", {"per_role": {f"r{index}": index for index in range(1000)}})

    assert len(faults) == 201
    assert [fault.path for fault in faults[:2]] == [("per_role", "r0"), ("per_role", "r1")]
    assert faults[-1] == Fault((), "too-many", "there are more than 200 faults, and the rest is left out")


# --- config files ---


def test_the_models_have_the_word_where_the_form_is_right(rules: RuleSet) -> None:
    """What hangs on the rules is not said by the schema: other rules may say otherwise."""
    assert config_file_faults({"default": "NO_ATTN"}, rules) == []
    assert config_file_faults({"default": {"backend": "CUDNN_ATTN", "skip_softmax": {}}}, rules) == []


def test_the_models_say_what_is_wrong_besides(rules: RuleSet) -> None:
    """All at once, and nothing twice."""
    config = {"default": 5, "per_role": {"self": "CUDN_ATTN", "cross": {"backend": "CUDNN_ATTN", "quant": {"x": 1}}}}

    faults = config_file_faults(config, rules)

    assert [(fault.code, fault.path) for fault in faults] == [
        ("wrong-type", ("default",)),
        ("unknown-key", ("per_role", "cross", "quant", "x")),
        ("unknown-backend", ("per_role", "self")),
    ]


def test_a_config_out_of_bounds_is_not_read_further(rules: RuleSet) -> None:
    """The models do not go where the schema does not."""
    config = {"default": 5, "per_role": {f"r{index}": "x" * 3 for index in range(100_001)}}

    assert [fault.code for fault in config_file_faults(config, rules)] == ["too-large"]


def test_a_backend_that_reads_more_in_an_overlay_may_be_given_more(tmp_path: Path) -> None:
    """A config file is held to the rules in use, and not to the shipped ones."""
    reads = ("    default_name: SDPA\n", "    default_name: SDPA\n    reads: {skip_softmax: [threshold]}\n")
    rules = load_rules([overlay(tmp_path / "rules", {"backends.yaml": [reads]})])
    file = tmp_path / "config.yaml"
    file.write_text("default: {backend: TORCH_SDPA, skip_softmax: {threshold: 1}}\n", encoding="utf-8")

    chosen = Selector(rules=rules, facts=CPU, config=file, environment={})

    assert chosen.decide().backend == "TORCH_SDPA"


def test_a_config_file_is_told_with_lines(tmp_path: Path) -> None:
    """File, line and column of every fault, of the key where the key is wrong."""
    file = tmp_path / "config.yaml"
    file.write_text("default: 5\nper_role:\n  cross: {bakend: CUDNN_ATTN, backend: CUDNN_ATTN}\n", encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        Selector(facts=CPU, config=file, environment={})

    assert str(caught.value) == (
        f"{file}:1:10: wrong-type: `default`: wanted a backend name or a mapping, got the number 5\n"
        f"{file}:3:11: unknown-key: no key `bakend` here\n  hint: did you mean `backend`?"
    )
