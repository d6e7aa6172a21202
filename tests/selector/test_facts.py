"""Facts of a machine and of a request: each key, each wrong type, and what null, missing and unknown mean."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector.facts import Request, derive, read_machine, read_request
from selector.faults import place
from selector.rules.vocabulary import Value
from selector.ruleset import shipped
from tests.selector.conftest import decide

WORDS = shipped().vocabulary
PACKAGES = ("flashinfer", "flash-attn", "flash-attn-3", "flash-attn-4", "sageattention", "sageattn3", "kernels")
NO_PACKAGES: dict[str, Value] = dict.fromkeys(f"packages.{name}" for name in PACKAGES)
MACHINE_KEYS = "platform, arch, cudnn, driver, torch, packages, switches, devices, notes, unusable"
KINDS = ", ".join(WORDS.facts["mask"].values)
OF_CALL = ", ".join([*(fact.name for fact in WORDS.group["call"]), "dtype", "seq_len_q", "seq_len_kv", "causal"])


def machine(value: object, device: int = 0) -> dict[str, Value]:
    """Read facts that are well."""
    faults, flat = read_machine(value, WORDS, device)
    assert not faults
    return flat


def told_of_machine(value: object, device: int = 0) -> list[str]:
    """Give every problem of a machine's facts as it is shown."""
    return [str(problem) for problem in place(read_machine(value, WORDS, device)[0], "facts")]


def told_of_request(value: object) -> list[str]:
    """Give every problem of a request as it is shown."""
    return [str(problem) for problem in place(read_request(value, WORDS)[0], "request")]


def problem(where: str, path: str, code: str, message: str, hint: str | None = None) -> str:
    """Write one problem as it is shown."""
    text = f"{where} ({path}): {code}: {message}" if path else f"{where}: {code}: {message}"
    return f"{text}\n  hint: {hint}" if hint else text


# --- the machine ---


@pytest.mark.parametrize(
    ("facts", "flat"),
    [
        ({}, {}),
        ({"platform": None, "packages": None, "devices": None}, {}),
        ({"platform": "cuda", "arch": "sm_90"}, {"platform": "cuda", "arch": "sm_90"}),
        ({"platform": "cuda", "arch": "sm_121"}, {"platform": "cuda", "arch": "sm_121"}),
        ({"platform": "cuda", "arch": None}, {"platform": "cuda", "arch": None}),
        ({"platform": "rocm", "arch": "gfx942"}, {"platform": "rocm", "arch": "gfx942"}),
        ({"platform": "npu", "arch": "Ascend 910B"}, {"platform": "npu", "arch": "Ascend 910B"}),
        ({"platform": "rocm", "arch": "sm_90"}, {"platform": "rocm", "arch": "sm_90"}),
        ({"cudnn": 91002}, {"cudnn": 91002}),
        ({"cudnn": 8907}, {"cudnn": 8907}),
        ({"cudnn": None}, {"cudnn": None}),
        ({"packages": {}}, NO_PACKAGES),
        ({"packages": {"flashinfer": None}}, NO_PACKAGES),
        ({"packages": {"flashinfer": "0.6.16rc1"}}, NO_PACKAGES | {"packages.flashinfer": "0.6.16rc1"}),
        ({"packages": {"flashinfer": "0.6.18+cu130"}}, NO_PACKAGES | {"packages.flashinfer": "0.6.18+cu130"}),
        ({"driver": "580.95", "torch": "2.13.0+cpu", "switches": {"flash_sdp_enabled": True}, "notes": ["x"],
          "unusable": {"flashinfer": "why"}}, {}),
        ({"driver": None, "torch": None, "switches": None, "unusable": None}, {}),
    ],
)  # fmt: skip
def test_facts_that_are_read(facts: object, flat: dict[str, Value]) -> None:
    """A package that is not listed is absent; null is kept where it is a value, and is unknown otherwise."""
    assert machine(facts) == flat


def test_a_package_that_was_not_looked_for_is_unknown() -> None:
    """The word `unknown` says so for one, a mapping that is missing for all; the others of a mapping are absent."""
    flat = machine({"packages": {"flashinfer": "unknown"}})

    assert "packages.flashinfer" not in flat
    assert flat["packages.kernels"] is None


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu", "npu", "musa", "cpu"])
def test_every_platform_is_known(platform: str) -> None:
    """Six makers' stacks, spelt exactly so."""
    assert machine({"platform": platform}) == {"platform": platform}


def misfit(name: str, message: str, hint: str | None = None) -> tuple[str, str, str, str | None]:
    """Write the path, code and sentence of a value that does not fit its fact."""
    return name, "bad-value", f"`{name}`: {message}", hint


ARCH = "wanted a value such as `sm_90`"
BAD_MACHINES: list[tuple[object, tuple[str, str, str, str | None]]] = [
    (5, ("", "wrong-type", "wanted a mapping of facts, got the number 5", None)),
    (None, ("", "wrong-type", "wanted a mapping of facts, got null", None)),
    ([], ("", "wrong-type", "wanted a mapping of facts, got a list", None)),
    ("cuda", ("", "wrong-type", "wanted a mapping of facts, got the string `cuda`", None)),
    ({"platfrm": "cuda"}, ("platfrm", "unknown-key", "no key `platfrm` here", "did you mean `platform`?")),
    ({"head_dim": 5}, ("head_dim", "unknown-key", "no key `head_dim` here", f"known here: {MACHINE_KEYS}")),
    ({"packages.flashinfer": "1"},
     ("packages.flashinfer", "unknown-key", "no key `packages.flashinfer` here", f"known here: {MACHINE_KEYS}")),
    ({"platform": "CUDA"}, misfit("platform", "wanted one of cuda, rocm, xpu, npu, musa, cpu, got `CUDA`",
                                  "did you mean `cuda`?")),
    ({"platform": "vulkan"}, misfit("platform", "wanted one of cuda, rocm, xpu, npu, musa, cpu, got `vulkan`")),
    ({"platform": True}, misfit("platform", "wanted a string, got true")),
    ({"platform": "cuda", "arch": 90}, misfit("arch", "wanted a string, got the number 90")),
    ({"platform": "cuda", "arch": ""}, misfit("arch", "wanted a string, got an empty one")),
    ({"platform": "cuda", "arch": ["sm_90"]}, misfit("arch", "wanted a string, got a list")),
    *[({"platform": "cuda", "arch": arch}, misfit("arch", f"{ARCH} on cuda, got `{arch}`"))
      for arch in ("sm_9", "SM_90", "sm90", "sm-90", "sm_90a", "sm_1000", "sm_090", "9.0", "gfx942", "Hopper", "sm_x")],
    ({"cudnn": 9.5}, misfit("cudnn", "wanted an integer, got the number 9.5")),
    ({"cudnn": 91002.0}, misfit("cudnn", "wanted an integer, got the number 91002.0")),
    ({"cudnn": "91002"}, misfit("cudnn", "wanted an integer, got the string `91002`")),
    ({"cudnn": True}, misfit("cudnn", "wanted an integer, got true")),
    ({"cudnn": 0}, misfit("cudnn", "wanted an integer of at least 1, got 0")),
    ({"cudnn": {}}, misfit("cudnn", "wanted an integer, got a mapping")),
    ({"packages": []},
     ("packages", "wrong-type", "`packages`: wanted a mapping of package names to versions, got a list", None)),
    ({"packages": "all"}, ("packages", "wrong-type",
                           "`packages`: wanted a mapping of package names to versions, got the string `all`", None)),
    ({"packages": {"flash-attn": 2.1}},
     misfit("packages.flash-attn", "wanted a version as a string, got the number 2.1", "quote it")),
    ({"packages": {"flash-attn": True}},
     misfit("packages.flash-attn", "wanted a version as a string, got true", "quote it")),
    ({"packages": {"flash-attn": {}}},
     misfit("packages.flash-attn", "wanted a version as a string, got a mapping", "quote it")),
    ({"packages": {"flash-attn": ""}},
     misfit("packages.flash-attn", "wanted a version as PEP 440 writes it, got ``")),
    ({"packages": {"flash-attn": "newest"}},
     misfit("packages.flash-attn", "wanted a version as PEP 440 writes it, got `newest`")),
    ({"packages": {"flash-attn": "Unknown"}},
     misfit("packages.flash-attn", "wanted a version as PEP 440 writes it, got `Unknown`")),
    *[({"packages": {given: "1"}},
       (f"packages.{given}", "unknown-key", f"no package `{given}` in the vocabulary", hint))
      for given, hint in (
          ("flashinfer-python", "did you mean `flashinfer`?"), ("fa3-fwd", "did you mean `flash-attn-3`?"),
          ("flash_attn_3", "did you mean `flash-attn-3`?"), ("flash-atn", "did you mean `flash-attn`?"),
          ("xformers", f"known here: {', '.join(PACKAGES)}"),
      )],
    ({"packages": {5: "1"}}, ("packages.5", "unknown-key", "no package `5` in the vocabulary",
                              f"known here: {', '.join(PACKAGES)}")),
    ({"driver": 580.95},
     ("driver", "wrong-type", "`driver`: wanted a version as a string, got the number 580.95", "quote it")),
    ({"torch": 2.1}, ("torch", "wrong-type", "`torch`: wanted a version as a string, got the number 2.1", "quote it")),
    ({"switches": ["flash"]}, ("switches", "wrong-type", "`switches`: wanted a mapping, got a list", None)),
    ({"unusable": "flashinfer"},
     ("unusable", "wrong-type", "`unusable`: wanted a mapping, got the string `flashinfer`", None)),
    ({"devices": {}}, ("devices", "wrong-type", "`devices`: wanted a list of mappings, got a mapping", None)),
    ({"devices": 1}, ("devices", "wrong-type", "`devices`: wanted a list of mappings, got the number 1", None)),
    ({"devices": [{}, {"arc": "sm_90"}]},
     ("devices[1].arc", "unknown-key", "no key `arc` here", "did you mean `arch`?")),
    ({"arch": "sm_90", "devices": [{"arch": "sm_90"}]},
     ("arch", "given-twice", "`arch` and `devices` both say what the GPU is", "leave one of them out")),
    ({"arch": "sm_90", "devices": []},
     ("arch", "given-twice", "`arch` and `devices` both say what the GPU is", "leave one of them out")),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "expected"), BAD_MACHINES, ids=[str(facts)[:50] for facts, _ in BAD_MACHINES])
def test_facts_that_are_refused(facts: object, expected: tuple[str, str, str, str | None]) -> None:
    """Each with its path, code and sentence, and the nearest name, a distribution's name included."""
    assert told_of_machine(facts) == [problem("facts", *expected)]


@pytest.mark.parametrize("arch", ["gfx942", "9.0", "sm_9", "SM_90", "sm90", "Ascend 910B"])
@pytest.mark.parametrize("platform", [None, "rocm", "musa", "cpu"])
def test_an_architecture_elsewhere_is_any_string(platform: str | None, arch: str) -> None:
    """Another maker's names are its own business, and so is one whose platform is not known."""
    assert machine({"platform": platform, "arch": arch})["arch"] == arch


def test_every_problem_of_the_facts_is_told_at_once() -> None:
    """In one pass, each with its path."""
    faults, _ = read_machine(
        {"x": 1, "platform": "gpu", "cudnn": "9", "packages": {"flashinfer": 1, "y": "1"}, "driver": 5},
        WORDS,
        path=("f",),
    )

    assert [".".join(map(str, fault.path)) for fault in faults] == [
        "f.x", "f.platform", "f.cudnn", "f.packages.y", "f.packages.flashinfer", "f.driver",
    ]  # fmt: skip


# --- devices ---

TWO = {"platform": "cuda", "devices": [{"index": 0, "name": "H100", "arch": "sm_90", "memory": 1}, {"arch": "sm_100"}]}


def test_one_device_lends_its_facts() -> None:
    """The first unless another is asked for."""
    assert machine(TWO) == {"platform": "cuda", "arch": "sm_90"}
    assert machine(TWO, 1) == {"platform": "cuda", "arch": "sm_100"}


def test_a_device_may_have_more_facts_of_its_own() -> None:
    """They go before what holds for all."""
    facts = {"platform": "cuda", "cudnn": 90100, "devices": [{"arch": "sm_90", "cudnn": 91002}, {"arch": "sm_80"}]}

    assert machine(facts) == {"platform": "cuda", "arch": "sm_90", "cudnn": 91002}
    assert machine(facts, 1) == {"platform": "cuda", "arch": "sm_80", "cudnn": 90100}


def test_no_device_is_no_gpu() -> None:
    """An empty list says that there is none; a device that does not say what it is says nothing."""
    assert machine({"devices": []}) == {"arch": None}
    assert machine({"devices": [{"name": "?"}]}) == {}
    assert machine({"arch": None, "devices": [{"arch": "sm_90"}]}) == {"arch": "sm_90"}


@pytest.mark.parametrize("device", [2, -1])
def test_a_device_that_is_not_listed(device: int) -> None:
    """The sentence says which there are."""
    message = f"wanted one of 2 devices (0 to 1), got device {device}"

    assert told_of_machine(TWO, device) == [problem("facts", "devices", "no-device", message)]


def test_every_device_is_checked() -> None:
    """Not only the one that is asked about."""
    facts = {"platform": "cuda", "devices": [{"arch": "sm_90"}, {"arch": 5}, {"cudnn": "x"}]}

    assert [str(fault.path) for fault in read_machine(facts, WORDS)[0]] == [
        "('devices', 1, 'arch')",
        "('devices', 2, 'cudnn')",
    ]


def test_the_architecture_of_every_device_is_checked_in_its_place() -> None:
    """Not only that of the one that is asked about."""
    facts = {"platform": "cuda", "devices": [{"arch": "sm90"}, {"arch": "gfx942"}]}

    assert [fault.path for fault in read_machine(facts, WORDS)[0]] == [("devices", 0, "arch"), ("devices", 1, "arch")]


@pytest.mark.parametrize(
    ("entry", "wanted", "got"),
    [
        ({"index": "x"}, "an integer of at least 0", "the string `x`"),
        ({"index": True}, "an integer of at least 0", "true"),
        ({"index": -1}, "an integer of at least 0", "the number -1"),
        ({"memory": 1.5}, "an integer of at least 0", "the number 1.5"),
        ({"name": 5}, "a string", "the number 5"),
    ],
)
def test_what_a_device_says_of_itself_is_checked(entry: dict[str, object], wanted: str, got: str) -> None:
    """Number, name and memory have types as everything else."""
    (name,) = entry

    assert told_of_machine({"devices": [{"arch": "sm_90"} | entry]}) == [
        problem("facts", f"devices[0].{name}", "wrong-type", f"`{name}`: wanted {wanted}, got {got}")
    ]


def test_what_a_device_does_not_say_is_no_fault() -> None:
    """Null stands for that too."""
    assert machine({"devices": [{"index": None, "name": None, "memory": None, "arch": "sm_90"}]}) == {"arch": "sm_90"}


def test_a_device_that_is_no_mapping_is_told_in_its_place() -> None:
    """With what it is."""
    assert told_of_machine({"devices": [{}, 5]}) == [
        problem("facts", "devices[1]", "wrong-type", "wanted a mapping, got the number 5")
    ]


def test_a_device_is_asked_for_by_its_number() -> None:
    """`index` is the device's number, in whatever order the list stands."""
    facts = {"platform": "cuda", "devices": [{"index": 1, "arch": "sm_90"}, {"index": 0, "arch": "sm_100"}]}

    assert machine(facts, 0)["arch"] == "sm_100"


@pytest.mark.parametrize("facts", [{"platform": "cuda", "arch": "sm_90"}, {"platform": "cuda", "devices": []}])
def test_a_device_is_refused_where_there_is_one_at_most(facts: dict[str, object]) -> None:
    """Asking for the sixth GPU of a machine with one is a mistake."""
    assert told_of_machine(facts, 5)


# --- the request ---


@pytest.mark.parametrize("value", [None, {}, {"role": None, "model": None, "call": None, "head_dim": None}])
def test_nothing_is_asked(value: object) -> None:
    """The role is `self`, and everything else is unknown."""
    assert read_request(value, WORDS) == ([], Request())


def test_a_request_is_read() -> None:
    """Role, category and model apart, the other facts by name."""
    value = {
        "role": "ltx2.audio_self", "role_category": "self", "model": "LTX2Pipeline", "head_dim": "symbolic",
        "mask_free": False, "dtype": "bfloat16", "num_heads": 32, "num_kv_heads": 32, "seq_len_q": 0,
        "seq_len_kv": 34, "compile": True,
    }  # fmt: skip
    faults, request = read_request(value, WORDS)

    assert not faults
    assert (request.role, request.category, request.model) == ("ltx2.audio_self", "self", "LTX2Pipeline")
    assert request.facts == {name: value[name] for name in list(value)[3:]}
    assert request.call is None


@pytest.mark.parametrize(
    ("causal", "facts"),
    [
        (True, {"causal": True}),
        (False, {"causal": False, "causal_alignment": None}),
        ("top_left", {"causal": True, "causal_alignment": "top_left"}),
        ("bottom_right", {"causal": True, "causal_alignment": "bottom_right"}),
        (None, {}),
    ],
)
def test_causal_is_a_flag_or_an_alignment(causal: object, facts: dict[str, Value]) -> None:
    """True alone leaves the alignment unknown, false says that there is none."""
    faults, request = read_request({"causal": causal}, WORDS)

    assert not faults
    assert request.facts == facts


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({}, {}),
        ({"mask": "none"}, {"mask": "none"}),
        ({"mask": None, "dtype": None, "seq_len_q": None, "causal": None}, {}),
        ({"mask": "additive", "dtype": "float32", "seq_len_q": 5, "seq_len_kv": 0, "mask_per_head": True},
         {"mask": "additive", "dtype": "float32", "seq_len_q": 5, "seq_len_kv": 0, "mask_per_head": True}),
        ({"causal": "top_left"}, {"causal": True, "causal_alignment": "top_left"}),
    ],
)  # fmt: skip
def test_a_call_is_read(given: dict[str, object], facts: dict[str, Value]) -> None:
    """A call that does not say that it is causal is not."""
    faults, request = read_request({"call": given}, WORDS)

    assert not faults
    assert request.call == {"causal": False, "causal_alignment": None} | facts


ONE_OF_DTYPES = "wanted one of bfloat16, float16, float32, float64"
BAD_REQUESTS: list[tuple[object, tuple[str, str, str, str | None]]] = [
    (5, ("", "wrong-type", "wanted a mapping, got the number 5", None)),
    (["self"], ("", "wrong-type", "wanted a mapping, got a list", None)),
    ({"head_dims": 5}, ("head_dims", "unknown-key", "no key `head_dims` here", "did you mean `head_dim`?")),
    ({"roll": "self"}, ("roll", "unknown-key", "no key `roll` here", "did you mean `role`?")),
    ({"role": ""}, misfit("role", "wanted a string, got an empty one")),
    ({"role": 5}, misfit("role", "wanted a string, got the number 5")),
    ({"role_category": True}, misfit("role_category", "wanted a string, got true")),
    ({"model": []}, misfit("model", "wanted a string, got a list")),
    ({"head_dim": 0}, misfit("head_dim", "wanted an integer of at least 1 or `symbolic`, got 0")),
    ({"head_dim": -8}, misfit("head_dim", "wanted an integer of at least 1 or `symbolic`, got -8")),
    ({"head_dim": 64.0}, misfit("head_dim", "wanted an integer or `symbolic`, got the number 64.0")),
    ({"head_dim": "64"}, misfit("head_dim", "wanted an integer or `symbolic`, got the string `64`")),
    ({"head_dim": True}, misfit("head_dim", "wanted an integer or `symbolic`, got true")),
    ({"head_dim": "symbolik"},
     misfit("head_dim", "wanted an integer or `symbolic`, got the string `symbolik`", "did you mean `symbolic`?")),
    ({"mask_free": 1}, misfit("mask_free", "wanted true or false, got the number 1")),
    ({"mask_free": "true"}, misfit("mask_free", "wanted true or false, got the string `true`")),
    ({"dtype": "fp16"}, misfit("dtype", f"{ONE_OF_DTYPES}, got `fp16`")),
    ({"dtype": "bf16"}, misfit("dtype", f"{ONE_OF_DTYPES}, got `bf16`", "did you mean `bfloat16`?")),
    ({"dtype": 16}, misfit("dtype", "wanted a string, got the number 16")),
    ({"num_heads": 0}, misfit("num_heads", "wanted an integer of at least 1, got 0")),
    ({"num_kv_heads": "8"}, misfit("num_kv_heads", "wanted an integer, got the string `8`")),
    ({"seq_len_q": -1}, misfit("seq_len_q", "wanted an integer of at least 0, got -1")),
    ({"seq_len_kv": 1.5}, misfit("seq_len_kv", "wanted an integer, got the number 1.5")),
    ({"compile": "yes"}, misfit("compile", "wanted true or false, got the string `yes`")),
    ({"causal": "topleft"}, misfit("causal", "wanted one of true, false, top_left, bottom_right, "
                                             "got the string `topleft`", "did you mean `top_left`?")),
    ({"causal": 1}, misfit("causal", "wanted one of true, false, top_left, bottom_right, got the number 1")),
    ({"call": 5}, ("call", "wrong-type", "`call`: wanted a mapping, got the number 5", None)),
    ({"call": {"mask": "causal"}}, ("call.mask", "bad-value", f"`mask`: wanted one of {KINDS}, got `causal`", None)),
    ({"call": {"mask": "key_paddin"}}, ("call.mask", "bad-value",
                                        f"`mask`: wanted one of {KINDS}, got `key_paddin`",
                                        "did you mean `key_padding`?")),
    *[({"call": {"mask": "none", "causal": given}},
       ("call.causal", "bad-value", f"`causal`: wanted one of null, top_left, bottom_right, got {got}", None))
      for given, got in ((True, "true"), (False, "false"), ("true", "the string `true`"), (1, "the number 1"))],
    ({"call": {"head_dim": 5}}, ("call.head_dim", "unknown-key", "no key `head_dim` here",
                                 f"known here: {OF_CALL}")),
    ({"call": {"seq_len": 5}},
     ("call.seq_len", "unknown-key", "no key `seq_len` here", "did you mean `seq_len_q`?")),
    ({"call": {"seq_len_kv": -1}},
     ("call.seq_len_kv", "bad-value", "`seq_len_kv`: wanted an integer of at least 0, got -1", None)),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), BAD_REQUESTS, ids=[str(value)[:50] for value, _ in BAD_REQUESTS])
def test_requests_that_are_refused(value: object, expected: tuple[str, str, str, str | None]) -> None:
    """Each with its path, code, sentence and the nearest that is known."""
    assert told_of_request(value) == [problem("request", *expected)]


@pytest.mark.parametrize("name", ["platform", "causal_alignment", "mask", "backend", "policy", "configured.role"])
def test_a_request_gives_facts_of_a_request_alone(name: str) -> None:
    """Those of the machine, of a call or of the config are unknown keys in it."""
    (fault,) = read_request({name: "cuda"}, WORDS)[0]

    assert (fault.code, fault.path) == ("unknown-key", (name,))


# --- facts that follow ---


@pytest.mark.parametrize(
    ("facts", "derived"),
    [
        ({"num_heads": 32, "num_kv_heads": 32}, {"equal_heads": True, "heads_divide": True}),
        ({"num_heads": 32, "num_kv_heads": 8}, {"equal_heads": False, "heads_divide": True}),
        ({"num_heads": 32, "num_kv_heads": 12}, {"equal_heads": False, "heads_divide": False}),
        ({"num_heads": 8, "num_kv_heads": 16}, {"equal_heads": False, "heads_divide": False}),
        ({"seq_len_q": 5, "seq_len_kv": 5}, {"equal_lengths": True}),
        ({"seq_len_q": 5, "seq_len_kv": 0}, {"equal_lengths": False}),
        ({"num_heads": 32, "seq_len_q": 5}, {}),
        ({"num_heads": 32, "num_kv_heads": None}, {"equal_heads": True}),
    ],
)
def test_derived_facts(facts: Mapping[str, Value], derived: dict[str, Value]) -> None:
    """Equal heads, heads that divide, equal lengths: known where both sides are."""
    assert derive(dict(facts), WORDS) == {**facts, **derived}


# --- null, missing, unknown ---

FLASHES = ("packages.flash-attn", "packages.flash-attn-3", "packages.flash-attn-4")


@pytest.mark.parametrize(
    ("facts", "backend", "missing"),
    [
        ({"platform": "cuda", "arch": "sm_90", "packages": {}}, "TORCH_SDPA", ()),
        ({"platform": "cuda", "arch": "sm_80"}, "TORCH_SDPA", ("packages.flash-attn",)),
        ({"platform": "cuda", "arch": "sm_80", "packages": {"flash-attn": "unknown"}}, "TORCH_SDPA",
         ("packages.flash-attn",)),
        pytest.param({"platform": "cuda", "arch": "sm_90"}, "TORCH_SDPA", FLASHES),
        pytest.param({"platform": "cuda", "arch": "sm_90", "packages": {"flash-attn-3": "unknown"}}, "TORCH_SDPA",
                     ("packages.flash-attn-3",)),
        ({"platform": "cuda", "arch": None, "packages": {}}, "TORCH_SDPA", ()),
        pytest.param({"platform": "cuda", "arch": "sm_120", "cudnn": None, "packages": {"flashinfer": "0.6.18"}},
                     "FLASHINFER_ATTN", ()),
        ({"platform": "cuda", "arch": "sm_120", "packages": {"flashinfer": "0.6.18"}}, "TORCH_SDPA", ("cudnn",)),
    ],
)  # fmt: skip
def test_unknown_is_not_false(facts: dict[str, object], backend: str, missing: tuple[str, ...]) -> None:
    """Absent and unknown both keep a row from winning, but what is unknown is named as what could change the answer."""
    decision = decide(facts, {"head_dim": 64, "dtype": "bfloat16", "mask_free": False})

    assert decision.backend == backend
    assert set(decision.missing) == set(missing)
