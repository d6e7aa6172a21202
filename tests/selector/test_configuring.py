"""Which of the config's sources counts: the structured one, the flag, the environment; and the policy."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector import AttentionConfig, AttentionSpec, SkipSoftmaxSpec
from selector.configuring import NOTHING, Choices, choose, read_policy
from selector.faults import Fault
from selector.ruleset import shipped
from tests.selector.conftest import BACKENDS

ENV = "DIFFUSION_ATTENTION_BACKEND"
KNOWN = f"known: {', '.join(BACKENDS)}"
BLOCK = {"skip_softmax": {"threshold": 1.0}}


def chosen(config: object = None, flag: object = None, env: Mapping[str, object] | None = None) -> Choices:
    """Merge sources that are well."""
    faults, choices = choose(config, flag, env or {}, shipped())
    assert not faults
    return choices


def told(config: object = None, flag: object = None, env: Mapping[str, object] | None = None) -> list[Fault]:
    """Merge sources that are not well."""
    faults, choices = choose(config, flag, env or {}, shipped())
    assert choices == NOTHING
    return faults


@pytest.mark.parametrize(
    ("config", "flag", "env", "backend", "origin"),
    [
        ({"default": "FLASH_ATTN"}, None, {}, "FLASH_ATTN", "config"),
        ({"default": {"backend": "flash_attn"}}, None, {ENV: "SAGE_ATTN"}, "FLASH_ATTN", "config"),
        (None, "Sage_Attn", {}, "SAGE_ATTN", "flag"),
        (None, "SAGE_ATTN", {ENV: "FLASH_ATTN"}, "SAGE_ATTN", "flag"),
        ({"default": "auto"}, "SAGE_ATTN", {}, "SAGE_ATTN", "flag"),
        ({"default": {"backend": "AUTO"}}, "SAGE_ATTN", {}, "SAGE_ATTN", "flag"),
        ({"default": {}}, "SAGE_ATTN", {}, "SAGE_ATTN", "flag"),
        ({"default": None}, "SAGE_ATTN", {}, "SAGE_ATTN", "flag"),
        ({"per_role": {"cross": "TORCH_SDPA"}}, "SAGE_ATTN", {}, "SAGE_ATTN", "flag"),
        (None, None, {ENV: "flash_attn"}, "FLASH_ATTN", "env"),
        ({}, None, {ENV: "FLASH_ATTN"}, "FLASH_ATTN", "env"),
        ({"default": "auto"}, None, {ENV: "FLASH_ATTN"}, "FLASH_ATTN", "env"),
        ({"per_role": {"cross": "TORCH_SDPA"}}, None, {ENV: "FLASH_ATTN"}, "FLASH_ATTN", "env"),
    ],
)
def test_the_first_source_that_names_a_default_counts(
    config: object, flag: object, env: Mapping[str, object], backend: str, origin: str
) -> None:
    """Structured config, then flag, then environment; `auto` names nothing."""
    choices = chosen(config, flag, env)

    assert choices.default is not None
    assert (choices.default.backend, choices.default_origin) == (backend, origin)


@pytest.mark.parametrize(
    ("config", "flag", "env"),
    [
        (None, None, {}),
        ({}, None, {}),
        ({"default": "auto"}, None, {}),
        (None, None, {ENV: ""}),
        (None, None, {ENV: None}),
        (None, None, {ENV: "auto"}),
        (None, "auto", {}),
        (None, "AUTO", {ENV: "FLASH_ATTN"}),
        ({"default": "auto"}, "auto", {ENV: "FLASH_ATTN"}),
        (None, None, {"OTHER": "FLASH_ATTN", "diffusion_attention_backend": "FLASH_ATTN"}),
    ],
)
def test_nothing_is_configured(config: object, flag: object, env: Mapping[str, object]) -> None:
    """An empty variable is unset, and a flag `auto` stops the environment."""
    assert chosen(config, flag, env).default is None


@pytest.mark.parametrize(
    ("config", "flag"),
    [({"default": "FLASH_ATTN"}, None), (None, "FLASH_ATTN"), (None, "auto"), ({"default": "auto"}, "auto")],
)
@pytest.mark.parametrize("unread", ["NOPE", 5, ["x"]])
def test_an_environment_that_is_not_read_is_not_checked(config: object, flag: object, unread: object) -> None:
    """Whatever stands there, it is no fault."""
    choices = chosen(config, flag, {ENV: unread})

    assert choices.default is None or choices.default.backend == "FLASH_ATTN"


def test_roles_are_kept_whatever_supplies_the_default() -> None:
    """Flag and environment speak for the default alone."""
    config = {"per_role": {"cross": "TORCH_SDPA", "self": "auto"}}

    for choices in (chosen(config), chosen(config, "SAGE_ATTN"), chosen(config, None, {ENV: "SAGE_ATTN"})):
        assert choices.per_role == {"cross": AttentionSpec(backend="TORCH_SDPA")}


@pytest.mark.parametrize(
    ("flag", "env", "origin"),
    [("TRTLLM_ATTN", {}, "flag"), ("trtllm_attn", {ENV: "FLASH_ATTN"}, "flag"), (None, {ENV: "TRTLLM_ATTN"}, "env")],
)
def test_blocks_without_a_name_take_the_name_that_is_supplied(
    flag: object, env: Mapping[str, object], origin: str
) -> None:
    """A structured default may hold blocks alone."""
    choices = chosen({"default": BLOCK}, flag, env)

    assert choices.default == AttentionSpec(backend="TRTLLM_ATTN", skip_softmax=SkipSoftmaxSpec(threshold=1.0))
    assert choices.default_origin == origin


@pytest.mark.parametrize(
    ("flag", "env", "path", "code", "message"),
    [
        (None, {}, ("default",), "dropped-block", "`skip_softmax` names no backend, so nothing would read it"),
        ("auto", {}, ("default",), "dropped-block", "`skip_softmax` names no backend, so nothing would read it"),
        ("auto", {ENV: "TRTLLM_ATTN"}, ("default",), "dropped-block",
         "`skip_softmax` names no backend, so nothing would read it"),
        (None, {ENV: "auto"}, ("default",), "dropped-block",
         "`skip_softmax` names no backend, so nothing would read it"),
        ("FLASH_ATTN", {}, ("default", "skip_softmax"), "unread-block", "FLASH_ATTN does not read `skip_softmax`"),
        (None, {ENV: "FLASH_ATTN"}, ("default", "skip_softmax"), "unread-block",
         "FLASH_ATTN does not read `skip_softmax`"),
    ],
)  # fmt: skip
def test_blocks_that_nothing_would_read_are_refused(
    flag: object, env: Mapping[str, object], path: tuple[str, ...], code: str, message: str
) -> None:
    """Where no name is supplied, or the name of a backend that does not read them."""
    (fault,) = told({"default": BLOCK}, flag, env)

    assert (fault.path, fault.code, fault.message) == (("config", *path), code, message)


def test_two_dropped_blocks_are_named_together() -> None:
    """One sentence for the entry."""
    (fault,) = told({"default": BLOCK | {"quant": {"dtype_qk": "int8"}}})

    assert fault.message.startswith("`skip_softmax` and `quant` name")


@pytest.mark.parametrize(
    ("config", "flag", "named"),
    [
        ({"default": "FLASH_ATTN"}, "SAGE_ATTN", "FLASH_ATTN"),
        ({"default": {"backend": "FLASH_ATTN"}}, "FLASH_ATTN", "FLASH_ATTN"),
        ({"default": {"backend": "FLASH_ATTN"}}, "auto", "FLASH_ATTN"),
        ({"default": "NOPE", "x": 1, "per_role": 5}, "NOPE", "NOPE"),
        ({"default": {"backend": "TRTLLM_ATTN", "quant": {"dtype_qk": 8}}}, "SAGE_ATTN", "TRTLLM_ATTN"),
        (AttentionConfig(default=AttentionSpec(backend="FLASH_ATTN")), "SAGE_ATTN", "FLASH_ATTN"),
    ],
)
def test_flag_and_default_exclude_each_other(config: object, flag: str, named: str) -> None:
    """Even a flag `auto`, even the same name twice, and before anything else that is wrong."""
    (fault,) = told(config, flag, {ENV: "NOPE"})

    assert fault == Fault(
        ("backend",),
        "mutually_exclusive",
        f"the shorthand `{flag}` excludes `default.backend` of the config, which is {named}",
        "leave one of the two out",
    )


@pytest.mark.parametrize(
    ("flag", "env", "fault"),
    [
        ("NOPE", {}, Fault(("backend",), "unknown-backend", "no backend `NOPE`", KNOWN)),
        ("", {}, Fault(("backend",), "unknown-backend", "no backend ``", KNOWN)),
        ("cudn", {}, Fault(("backend",), "unknown-backend", "no backend `cudn`", KNOWN)),
        ("cudn_attn", {}, Fault(("backend",), "unknown-backend", "no backend `cudn_attn`",
                                "did you mean `CUDNN_ATTN`?")),
        (5, {}, Fault(("backend",), "wrong-type", "`backend`: wanted a backend name, got the number 5")),
        (False, {}, Fault(("backend",), "wrong-type", "`backend`: wanted a backend name, got false")),
        (None, {ENV: "NOPE"}, Fault(("env", ENV), "unknown-backend", "no backend `NOPE`", KNOWN)),
        (None, {ENV: 7}, Fault(("env", ENV), "wrong-type", f"`{ENV}`: wanted a backend name, got the number 7")),
        (None, {ENV: True}, Fault(("env", ENV), "wrong-type", f"`{ENV}`: wanted a backend name, got true")),
    ],
)  # fmt: skip
def test_a_supplied_name_is_checked(flag: object, env: Mapping[str, object], fault: Fault) -> None:
    """With the place where it stands."""
    assert told(None, flag, env) == [fault]


@pytest.mark.parametrize("value", [0, False, [], {}])
def test_a_variable_that_is_read_is_a_string(value: object) -> None:
    """Only an empty string is an unset variable; another type is a fault, true or false."""
    (fault,) = told(None, None, {ENV: value})

    assert fault.code == "wrong-type"


def test_faults_of_config_and_flag_are_told_together() -> None:
    """They are one input."""
    faults = told({"per_role": {"cross": "NOPE"}}, "NOPE")

    assert [fault.path for fault in faults] == [("config", "per_role", "cross"), ("backend",)]


def test_the_path_of_the_input_leads_every_path() -> None:
    """As where a line holds them all."""
    faults, _ = choose({"default": BLOCK, "x": 1}, "NOPE", {}, shipped(), ("line",))
    (exclusive,), _ = choose({"default": "FLASH_ATTN"}, "NOPE", {}, shipped(), ("line",))

    assert [fault.path for fault in faults] == [("line", "config", "x"), ("line", "backend")]
    assert exclusive.path == ("line", "backend")


def test_a_typed_config_is_a_source_like_any_other() -> None:
    """It is read again with the rules of the selector."""
    config = AttentionConfig(
        default=AttentionSpec(backend="TORCH_SDPA"), per_role={"cross": AttentionSpec(backend="SAGE_ATTN")}
    )

    assert chosen(config) == chosen({"default": "TORCH_SDPA", "per_role": {"cross": "SAGE_ATTN"}})


def test_choices_say_what_is_configured() -> None:
    """For a role, its category and the default, and which entry a row of `role_fallback` means."""
    choices = chosen({"default": "TORCH_SDPA", "per_role": {"cross": "SAGE_ATTN", "ltx2.audio_self": "FLASH_ATTN"}})
    spec = choices.per_role["ltx2.audio_self"]

    assert choices.facts("ltx2.audio_self", None) == {
        "configured.role": True,
        "configured.category": False,
        "configured.default": True,
    }
    assert choices.facts("x", "cross")["configured.category"]
    assert choices.entry("role", "ltx2.audio_self", None) == (spec, "config")
    assert choices.entry("category", "x", "cross") == (choices.per_role["cross"], "config")
    assert choices.entry("category", "x", None) == (None, "config")
    assert choices.entry("role", "x", None) == (None, "config")
    assert choices.entry("default", "x", None) == (choices.default, "config")
    assert choices.entry("platform", "x", "cross") == (None, "platform")


POLICY = "ATTENTION_SELECTOR_POLICY"


@pytest.mark.parametrize(
    ("given", "env", "policy"),
    [
        (None, {}, "fallback"),
        ("strict", {}, "strict"),
        ("fallback", {POLICY: "strict"}, "fallback"),
        ("strict", {POLICY: "nonsense"}, "strict"),
        (None, {POLICY: "strict"}, "strict"),
        (None, {POLICY: ""}, "fallback"),
        (None, {POLICY: None}, "fallback"),
    ],
)
def test_the_policy(given: object, env: Mapping[str, object], policy: str) -> None:
    """The one given, else the environment's where it is not empty, else `fallback`; what is not read is not checked."""
    assert read_policy(given, env, ()) == ([], policy)


@pytest.mark.parametrize(
    ("given", "env", "fault"),
    [
        ("STRICT", {}, Fault(("x", "policy"), "bad-value", "`policy`: wanted one of fallback, strict, got `STRICT`",
                             "did you mean `strict`?")),
        ("", {}, Fault(("x", "policy"), "bad-value", "`policy`: wanted one of fallback, strict, got ``")),
        (5, {}, Fault(("x", "policy"), "wrong-type", "`policy`: wanted a string, got the number 5")),
        (False, {}, Fault(("x", "policy"), "wrong-type", "`policy`: wanted a string, got false")),
        (None, {POLICY: "strikt"}, Fault(("x", "env", POLICY), "bad-value",
                                         "`policy`: wanted one of fallback, strict, got `strikt`",
                                         "did you mean `strict`?")),
        (None, {POLICY: 5}, Fault(("x", "env", POLICY), "wrong-type",
                                  f"`{POLICY}`: wanted a string, got the number 5")),
    ],
)  # fmt: skip
def test_a_policy_that_is_none(given: object, env: Mapping[str, object], fault: Fault) -> None:
    """Two words, spelt exactly; `fallback` holds until it is corrected."""
    assert read_policy(given, env, ("x",)) == ([fault], "fallback")


@pytest.mark.parametrize("value", [0, False, [], {}])
def test_a_policy_variable_is_a_string(value: object) -> None:
    """As for the backend."""
    faults, _ = read_policy(None, {POLICY: value}, ())

    assert [fault.code for fault in faults] == ["wrong-type"]
