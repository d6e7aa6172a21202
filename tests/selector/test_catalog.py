from __future__ import annotations

from collections.abc import Callable

import pytest

from selector.catalog import CatalogReader, Provider, Roles, Shape
from selector.rules.conditions import ALWAYS
from selector.rules.problems import Place
from tests.selector.rules.language import node, read_words, reader, words
from tests.selector.rules.texts import short

_MISSING = "which is not there"
_FACTS = ", ".join([*words().facts][:12]) + " and 6 more"
_FLASH = "did you mean `packages.flash`?"
_PARTS: dict[str, Callable[[CatalogReader, str], object]] = {
    "backends": lambda catalog, text: catalog.backends(node(text)),
    "models": lambda catalog, text: catalog.models(node(text)),
    "roles": lambda catalog, text: catalog.roles(node(text)),
    "warnings": lambda catalog, text: catalog.warnings(node(text)),
}


def _catalog() -> CatalogReader:
    return CatalogReader(reader())


def _problems(part: str, text: str) -> list[str]:
    catalog = _catalog()
    _PARTS[part](catalog, text)
    return [str(problem) for problem in catalog.source.problems]


def _backend(keys: str) -> str:
    return f"backends: {{A: {{about: x, {keys}}}}}\n"


def _provider(keys: str) -> str:
    return f"backends: {{A: {{about: x}}}}\nproviders: {{p: {{{keys}}}}}\n"


def _role(keys: str) -> str:
    return _roles(f"self: {{{keys}}}")


def _roles(roles: str) -> str:
    return f"models: [{{names: [M], mask_free: true, roles: {{{roles}}}}}]\n"


_BACKENDS = """\
backends:
  A:
    about: One of two.
    default_name: a
    ability: {platform: cuda}
    unbound: packages.flash
    providers: [p]
    reads:
      block: [one, two]
      quant: {dtype: [int8, 4, true], free: []}
    unverified:
      - {id: new, when: {arch: sm_120}, warn: "{arch} is new", because: nobody tried, source: a page}
  B: {about: The other.}
providers:
  p: {about: A build., backend: A, unbound: packages.flash, ability: {arch: sm_90}}
  q: {about: Another., backend: A}
"""


def test_backends_and_providers_arrive_with_all_that_is_said_of_them() -> None:
    """Every key arrives, and what is not written is empty or the name itself."""
    catalog = _catalog()
    backends, providers = catalog.backends(node(_BACKENDS))
    first, second = backends["A"], backends["B"]

    assert catalog.source.problems == []
    assert (first.about, first.default_name, first.unbound, first.providers) == (
        "One of two.",
        "a",
        "packages.flash",
        ("p",),
    )
    assert first.reads == {"block": {"one": (), "two": ()}, "quant": {"dtype": ("int8", 4, True), "free": ()}}
    assert first.ability.holds({"platform": "cuda"}) is True
    assert first.place == Place("t.yaml", 2, 3, "backends.A")
    assert [(caution.warn, caution.because) for caution in first.unverified] == [("{arch} is new", "nobody tried")]
    assert first.unverified[0].when.holds({"arch": "sm_120"}) is True
    assert str(first.unverified[0].place) == "t.yaml:12:9"
    assert (second.default_name, second.ability, second.unverified, second.reads) == ("B", ALWAYS, (), {})
    assert (second.providers, second.unbound) == ((), None)
    assert providers["q"] == Provider("q", "A", "Another.", ALWAYS, None, Place("t.yaml", 16, 3, "providers.q"))
    assert (providers["p"].backend, providers["p"].unbound) == ("A", "packages.flash")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ["1:1: wrong-type: wanted a mapping, got a list"]),
        ("{}", [f"1:1: missing-key: wanted the key `backends`, {_MISSING}"]),
        ("backends: []", ["1:11: wrong-type: `backends`: wanted a mapping, got a list"]),
        ("backends: {A: 1}", ["1:15: wrong-type: `A`: wanted a mapping, got `1`"]),
        ("backends: {A: {}}", [f"1:15: missing-key: wanted the key `about`, {_MISSING}"]),
        (_backend("abilty: {}"), ["1:26: unknown-key: no key `abilty` here\n  hint: did you mean `ability`?"]),
        (_backend("default_name: 1"), ["1:40: wrong-type: `default_name`: wanted a string, got `1`"]),
        (_backend("ability: {platfrm: x}"),
         ["1:36: unknown-fact: no fact `platfrm`\n  hint: did you mean `platform`?"]),
        (_backend("ability: []"), ["1:35: wrong-type: wanted a mapping of facts, got a list"]),
        (_backend("ability: {}"), ["1:35: empty-when: wanted at least one fact\n  hint: leave the key out"]),
        (_backend("unbound: packages.flsh"),
         [f"1:35: unknown-name: `unbound`: wanted one of {_FACTS}, got `packages.flsh`\n  hint: {_FLASH}"]),
        (_backend("providers: p"), ["1:37: wrong-type: `providers`: wanted a list, got `p`"]),
        (_backend("providers: [p]"), ["1:38: unknown-name: no `p` for `providers`"]),
        (_backend("reads: x"), ["1:33: wrong-type: `reads`: wanted a mapping, got `x`"]),
        (_backend("reads: {quant: x}"), ["1:41: wrong-type: `quant`: wanted a mapping, got `x`"]),
        (_backend("reads: {quant: [1]}"), ["1:42: wrong-type: `quant[0]`: wanted a string, got `1`"]),
        (_backend("reads: {quant: {dtype: int8}}"), ["1:49: wrong-type: `dtype`: wanted a list, got `int8`"]),
        (_backend("unverified: {}"), ["1:38: wrong-type: `unverified`: wanted a list, got a mapping"]),
        (_backend("unverified: [x]"), ["1:39: wrong-type: `unverified[0]`: wanted a mapping, got `x`"]),
        (_backend("unverified: [{}]"),
         [f"1:39: missing-key: wanted the key `{key}`, {_MISSING}" for key in ("when", "warn", "because")]),
        (_backend("unverified: [{when: {steps: x}, warn: '{arc}', because: 1}]"),
         ["1:64: unknown-fact: no fact `arc` for the template\n  hint: did you mean `arch`?",
          "1:82: wrong-type: `because`: wanted a string, got `1`",
          "1:54: bad-value: `steps`: wanted an integer, got the string `x`"]),
        (_provider("backend: A"), [f"2:16: missing-key: wanted the key `about`, {_MISSING}"]),
        (_provider("about: x"), [f"2:16: missing-key: wanted the key `backend`, {_MISSING}"]),
        (_provider("about: x, backend: B"), ["2:36: unknown-name: `backend`: wanted one of A, got `B`"]),
        (_provider("about: x, backend: A, unbund: cudnn"),
         ["2:39: unknown-key: no key `unbund` here\n  hint: did you mean `unbound`?"]),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_wrong_with_backends_is_told_with_its_place(text: str, said: list[str]) -> None:
    """Every mistake is told, and reading goes on."""
    assert _problems("backends", text) == [f"t.yaml:{one}" for one in said]


_MODELS = """\
models:
  - names: [M, org/M]
    about: A model.
    mask_free: false
    head_dim: 128
    limitations: [It is slow.]
    roles:
      self:
        category: joint
        num_heads: 48
        num_kv_heads: 12
        head_dim: 64
        layers: 3
        mask: key_padding
        compiled: {head_dim: symbolic}
        shapes: [{name: small, seq_len_q: 10, seq_len_kv: 20}]
      cross: {same_as: self}
      other: {}
"""


def test_models_arrive_with_all_that_is_said_of_them() -> None:
    """Facts of the model and of its roles are kept apart, and a role may be the same as another."""
    catalog = _catalog()
    (model,) = catalog.models(node(_MODELS))
    own, other = model.roles["self"], model.roles["other"]

    assert catalog.source.problems == []
    assert (model.names, model.about, model.limitations) == (("M", "org/M"), "A model.", ("It is slow.",))
    assert model.facts == {"mask_free": False, "head_dim": 128}
    assert own.facts == {"num_heads": 48, "num_kv_heads": 12, "head_dim": 64}
    assert own.compiled == {"head_dim": "symbolic"}
    assert (own.category, own.mask, own.layers, own.shapes) == ("joint", "key_padding", 3, (Shape("small", 10, 20),))
    assert model.roles["cross"] == own
    assert (other.category, other.facts, other.compiled, other.mask) == (None, {}, {}, None)
    assert (other.layers, other.shapes) == (None, ())
    assert str(model.place) == "t.yaml:2:5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", [f"1:1: missing-key: wanted the key `models`, {_MISSING}"]),
        ("models: {}", ["1:9: wrong-type: `models`: wanted a list, got a mapping"]),
        ("models: [x]", ["1:10: wrong-type: `models[0]`: wanted a mapping, got `x`"]),
        ("models: [{}]",
         [f"1:10: missing-key: wanted the key `{key}`, {_MISSING}" for key in ("names", "mask_free", "roles")]),
        ("models: [{names: M, mask_free: true, roles: {}}]", ["1:18: wrong-type: `names`: wanted a list, got `M`"]),
        ("models: [{names: [M], mask_free: yes, roles: {}}]",
         ["1:34: bad-value: `mask_free`: wanted true or false, got the string `yes`"]),
        ("models: [{names: [M], mask_free: ~, roles: {}}]",
         ["1:34: bad-value: `mask_free`: wanted true or false, got null"]),
        ("models: [{names: [M], mask_free: true, roles: []}]",
         ["1:47: wrong-type: `roles`: wanted a mapping, got a list"]),
        ("models: [{names: [M], mask_free: true, roles: {self: 1}}]",
         ["1:54: wrong-type: `self`: wanted a mapping, got `1`"]),
        ("models:\n- {names: [M], mask_free: true, roles: {}}\n- {names: [N, M], mask_free: true, roles: {}}",
         ["3:3: duplicate-model: model `M` stands twice"]),
        ("models: [{names: [M, M], mask_free: true, roles: {}}]", ["1:10: duplicate-model: model `M` stands twice"]),
        (_role("head_dm: 1"), ["1:55: unknown-key: no key `head_dm` here\n  hint: did you mean `head_dim`?"]),
        (_role("head_dim: 0"), ["1:65: bad-value: `head_dim`: wanted an integer of at least 1 or `symbolic`, got 0"]),
        (_role("head_dim: [1]"), ["1:65: bad-value: `head_dim`: wanted an integer or `symbolic`, got a list"]),
        (_role("category: 1"), ["1:65: wrong-type: `category`: wanted a string, got `1`"]),
        (_role("mask: nothing"), ["1:61: unknown-name: `mask`: wanted one of none, key_padding, got `nothing`"]),
        (_role("layers: 1.5"), ["1:63: wrong-type: `layers`: wanted an integer, got `1.5`"]),
        (_role("compiled: {mask: none}"),
         ["1:66: unknown-key: no key `mask` here\n  hint: known here: head_dim, num_heads, num_kv_heads"]),
        (_role("compiled: {num_heads: '1'}"), ["1:77: bad-value: `num_heads`: wanted an integer, got the string `1`"]),
        (_role("shapes: {}"), ["1:63: wrong-type: `shapes`: wanted a list, got a mapping"]),
        (_role("shapes: [{name: a, seq_len_q: 1}]"), [f"1:64: missing-key: wanted the key `seq_len_kv`, {_MISSING}"]),
        (_role("shapes: [{name: '', seq_len_q: x, seq_len_kv: 1}]"),
         ["1:86: wrong-type: `seq_len_q`: wanted an integer, got `x`",
          "1:71: wrong-type: `name`: wanted a string, got an empty string"]),
        (_roles("self: {}, cross: {same_as: slf}"),
         ["1:75: unknown-name: `same_as`: wanted one of self, got `slf`\n  hint: did you mean `self`?"]),
        (_roles("self: {}, cross: {same_as: cross}"),
         ["1:75: unknown-name: `same_as`: wanted one of self, got `cross`"]),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_wrong_with_models_is_told_with_its_place(text: str, said: list[str]) -> None:
    """Every mistake is told, and reading goes on."""
    assert _problems("models", text) == [f"t.yaml:{one}" for one in said]


def test_without_a_fact_for_masks_no_mask_can_be_named() -> None:
    """A vocabulary that knows neither masks nor sizes makes the models file say less, and nothing breaks."""
    vocabulary, _ = read_words("facts: {a: {type: string, group: machine, about: x}}")
    catalog = CatalogReader(reader(vocabulary))

    catalog.models(node(_role("head_dim: 1")))
    catalog.models(node(_role("mask: none")))

    assert [(problem.code, str(problem.place)) for problem in catalog.source.problems] == [
        ("unknown-name", "t.yaml:1:61")
    ]


def test_where_there_is_nothing_to_choose_from_no_choice_is_told() -> None:
    """A sentence that lists what was wanted has something to list."""
    (found,) = _problems("models", _role("same_as: self"))

    assert "wanted one of ," not in found


@pytest.mark.parametrize(
    "roles",
    [
        "a: {maks: none}, b: {same_as: a}",
        "a: {}, b: {same_as: a, layers: 3}",
    ],
)
def test_one_mistake_in_a_model_makes_one_problem(roles: str) -> None:
    """A mistake is told once, and nothing that is written is dropped without a word."""
    assert len(_problems("models", _roles(roles))) == 1


@pytest.mark.parametrize(
    "roles",
    [
        "a: {}, b: {same_as: a}, c: {same_as: b}",
        "c: {same_as: b}, b: {same_as: a}, a: {}",
    ],
)
def test_a_role_may_equal_one_that_equals_another(roles: str) -> None:
    """The order in which roles are written means nothing."""
    assert _problems("models", _roles(roles)) == []


def test_a_value_that_no_field_can_take_is_told() -> None:
    """What a backend reads of a block is a list of words, integers and booleans."""
    assert _problems("backends", _backend("reads: {quant: {dtype: [1.5, x, [y]]}}")) == [
        "t.yaml:1:50: wrong-type: `dtype[0]`: wanted a string, an integer or a boolean, got `1.5`",
        "t.yaml:1:58: wrong-type: `dtype[2]`: wanted a string, an integer or a boolean, got a list",
    ]


_ROLES = """\
roles:
  video.*: cross
  video.audio.*: joint
  video.exact: self
  exact: self
"""


@pytest.mark.parametrize(
    ("role", "category"),
    [
        ("exact", "self"), ("video.exact", "self"), ("video.other", "cross"), ("video.", "cross"),
        ("video.audio.x", "joint"),
        ("video.exact.more", "cross"), ("video", None), ("exactly", None), ("", None), ("Video.x", None),
    ],
)  # fmt: skip
def test_a_role_has_the_category_of_its_name_or_else_of_its_longest_prefix(role: str, category: str | None) -> None:
    """Exact names go first, then the longest prefix; other roles have no category."""
    catalog = _catalog()

    found = catalog.roles(node(_ROLES))

    assert catalog.source.problems == []
    assert found.category(role) == category


def test_no_roles_have_no_category() -> None:
    """An empty table answers nothing."""
    assert Roles({}, ()).category("self") is None


@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("roles", "{}", [f"1:1: missing-key: wanted the key `roles`, {_MISSING}"]),
        ("roles", "roles: []", ["1:8: wrong-type: `roles`: wanted a mapping, got a list"]),
        ("roles",
         "roles: {a: 1, b.*: [x]}",
         ["1:12: wrong-type: `a`: wanted a string, got `1`", "1:20: wrong-type: `*`: wanted a string, got a list"]),
        ("warnings", "{}", [f"1:1: missing-key: wanted the key `warnings`, {_MISSING}"]),
        ("warnings", "warnings: {}", ["1:11: wrong-type: `warnings`: wanted a list, got a mapping"]),
        ("warnings",
         "warnings: [{when: {}, warn: x, because: y}]",
         ["1:19: empty-when: wanted at least one fact\n  hint: leave the key out"]),
        ("warnings", "warnings: [{when: {platform: cpu}, warn: '{arc}', because: y}]",
         ["1:42: unknown-fact: no fact `arc` for the template\n  hint: did you mean `arch`?"]),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_wrong_with_roles_and_warnings_is_told_with_its_place(part: str, text: str, said: list[str]) -> None:
    """Every mistake is told, and reading goes on."""
    assert _problems(part, text) == [f"t.yaml:{one}" for one in said]


def test_warnings_arrive_in_order() -> None:
    """Each has its condition, its template and its reason."""
    catalog = _catalog()

    first, second = catalog.warnings(
        node("warnings:\n- {when: {platform: cpu}, warn: x, because: y}\n- {when: {steps: 1}, warn: z, because: y}\n")
    )

    assert (first.warn, second.warn, str(second.place)) == ("x", "z", "t.yaml:3:3")
    assert second.when.holds({"steps": 1}) is True
