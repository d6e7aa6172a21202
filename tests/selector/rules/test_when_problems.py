from __future__ import annotations

import pytest

from tests.selector.rules.language import problems_of_when, truth
from tests.selector.rules.texts import short

_SIZE = "`head_dim`: wanted an integer or `symbolic`"
_MATCHERS = "equals, in, compare, multiple_of, min, max, present, absent"


@pytest.mark.parametrize(
    ("when", "said"),
    [
        # what stands where facts should stand
        ("[]", "1:1: wrong-type: wanted a mapping of facts, got a list"),
        ("x", "1:1: wrong-type: wanted a mapping of facts, got `x`"),
        ("{}", "1:1: empty-when: wanted at least one fact\n  hint: leave the key out"),
        ("not: []", "1:6: wrong-type: wanted a mapping of facts, got a list"),
        ("not: {}", "1:6: empty-when: wanted at least one fact\n  hint: leave the key out"),
        ("any: []", "1:6: wrong-type: wanted a list of mappings of facts, got an empty list"),
        ("all: {platform: cuda}", "1:6: wrong-type: wanted a list of mappings of facts, got a mapping"),
        ("any: true", "1:6: wrong-type: wanted a list of mappings of facts, got `true`"),
        ("any: [platform]", "1:7: wrong-type: wanted a mapping of facts, got `platform`"),
        ("head_dims: 1", "1:1: unknown-fact: no fact `head_dims`\n  hint: did you mean `head_dim`?"),
        ("anny: []", "1:1: unknown-fact: no fact `anny`\n  hint: did you mean `any`?"),
        ("packages.flsh: present",
         "1:1: unknown-fact: no fact `packages.flsh`\n  hint: did you mean `packages.flash`?"),
        ("qqqq: 1", "1:1: unknown-fact: no fact `qqqq`"),
        ("'': 1", "1:1: unknown-fact: no fact ``"),
        ("unknown: match", "1:1: unknown-fact: no fact `unknown`"),
        # scalars
        ("platform: cudaa",
         "1:11: bad-value: `platform`: wanted one of cuda, rocm, cpu, got `cudaa`\n  hint: did you mean `cuda`?"),
        ("mask: x", "1:7: bad-value: `mask`: wanted one of none, key_padding, got `x`"),
        ("platform: 1", "1:11: bad-value: `platform`: wanted a string, got the number 1"),
        ("platform: true", "1:11: bad-value: `platform`: wanted a string, got true"),
        ("platform: ~", "1:11: bad-value: `platform`: null is no value to compare with\n  hint: write `absent`"),
        ("role: ''", "1:7: bad-value: `role`: wanted a string, got an empty one"),
        ("arch: ''", "1:7: bad-value: `arch`: wanted a string, got an empty one"),
        ("arch: 5", "1:7: bad-value: `arch`: wanted a string, got the number 5"),
        ("arch: sm_9", "1:7: bad-value: `arch`: wanted a value such as `sm_90`, got `sm_9`"),
        ("head_dim: 0", "1:11: bad-value: `head_dim`: wanted an integer of at least 1 or `symbolic`, got 0"),
        ("head_dim: 64.0", "1:11: bad-value: `head_dim`: wanted an integer or `symbolic`, got the number 64.0"),
        ("head_dim: true", "1:11: bad-value: `head_dim`: wanted an integer or `symbolic`, got true"),
        ("head_dim: symbolc",
         f"1:11: bad-value: {_SIZE}, got the string `symbolc`\n  hint: did you mean `symbolic`?"),
        ("steps: '4'", "1:8: bad-value: `steps`: wanted an integer, got the string `4`"),
        ("steps: .inf", "1:8: bad-value: `steps`: wanted an integer, got the number inf"),
        ("cudnn: 9.5", "1:8: bad-value: `cudnn`: wanted an integer, got the number 9.5"),
        ("cudnn: -1", "1:8: bad-value: `cudnn`: wanted an integer of at least 1, got -1"),
        ("mask_free: 1", "1:12: bad-value: `mask_free`: wanted true or false, got the number 1"),
        ("mask_free: on", "1:12: bad-value: `mask_free`: wanted true or false, got the string `on`"),
        ("packages.flash: 2.10",
         "1:17: bad-value: `packages.flash`: wanted a version as a string, got the number 2.1\n  hint: quote it"),
        ("packages.flash: new", "1:17: bad-value: `packages.flash`: wanted a version as PEP 440 writes it, got `new`"),
        ("packages.flash: {equals: [1]}",
         "1:26: bad-value: `packages.flash`: wanted a version as a string, got a list\n  hint: quote it"),
        ("packages.flash: {equals: {a: 1}}",
         "1:26: bad-value: `packages.flash`: wanted a version as a string, got a mapping\n  hint: quote it"),
        # lists and sets
        ("head_dim: []", "1:11: bad-value: `head_dim`: wanted a list of values, got an empty list"),
        ("head_dim: [64, 128.0]", "1:16: bad-value: `head_dim`: wanted an integer or `symbolic`, got the number 128.0"),
        ("head_dim: [64, ~]", "1:16: bad-value: `head_dim`: null is no value to compare with\n  hint: write `absent`"),
        ("head_dim: [[64]]", "1:12: bad-value: `head_dim`: wanted an integer or `symbolic`, got a list"),
        ("head_dim: {in: []}", "1:16: bad-value: `head_dim`: wanted a list of values, got an empty list"),
        ("head_dim: {in: 64}", "1:16: bad-value: `head_dim`: wanted a list of values, got `64`"),
        ("arch: {in: blackwel}", "1:12: unknown-set: no set `blackwel`\n  hint: did you mean `blackwell`?"),
        ("arch: {in: smal}", "1:12: unknown-set: no set `smal`"),
        ("arch: {in: small}",
         "1:12: wrong-set: set `small` holds values of `head_dim`, not of `arch`\n  hint: sets of `arch`: blackwell"),
        ("role: {in: small}",
         "1:12: wrong-set: set `small` holds values of `head_dim`, not of `role`\n  hint: sets of `role`: none"),
        # comparisons
        ("head_dim: '>=x'", "1:11: bad-value: `head_dim`: wanted a comparison such as `>=64`, got `>=x`"),
        ("head_dim: ' =64'", "1:11: bad-value: `head_dim`: wanted a comparison such as `>=64`, got ` =64`"),
        ("head_dim: {compare: 64}",
         "1:21: bad-value: `head_dim`: wanted a comparison as a string, got `64`\n  hint: quote it"),
        ("head_dim: {compare: ['>=64']}",
         "1:21: bad-value: `head_dim`: wanted a comparison as a string, got a list\n  hint: quote it"),
        ("arch: '>=sm_10x'", "1:7: bad-value: `arch`: wanted a comparison such as `>=sm_80`, got `>=sm_10x`"),
        ("cudnn: '>=9'", "1:8: bad-value: `cudnn`: wanted a comparison such as `>=9.5`, got `>=9`"),
        ("release: '=1'", "1:10: bad-value: `release`: wanted a comparison such as `>=0.6.16rc1`, got `=1`"),
        ("mask_free: '>=1'", "1:12: not-ordered: values of `mask_free` have no order: wanted a value, got `>=1`"),
        ("steps: '>3'", "1:8: not-ordered: values of `steps` have no order: wanted a value, got `>3`"),
        ("label: {compare: '>=1'}", "1:18: not-ordered: values of `label` have no order: wanted a value, got `>=1`"),
        ("role: {min: a}", "1:13: not-ordered: values of `role` have no order: wanted a value, got `a`"),
        # numbers
        ("mask_free: {min: 1}", "1:18: not-a-number: `min` asks for an integer, but `mask_free` is a boolean"),
        ("release: {max: 2}", "1:16: not-a-number: `max` asks for an integer, but `release` is a version"),
        ("role: {multiple_of: 2}", "1:21: not-a-number: `multiple_of` asks for an integer, but `role` is a string"),
        ("head_dim: {min: true}", "1:17: bad-value: `min`: wanted an integer, got `true`"),
        ("head_dim: {max: 1.5}", "1:17: bad-value: `max`: wanted an integer, got `1.5`"),
        ("head_dim: {multiple_of: '8'}", "1:25: bad-value: `multiple_of`: wanted an integer, got `8`"),
        ("head_dim: {multiple_of: ~}", "1:25: bad-value: `multiple_of`: wanted an integer, got `null`"),
        ("head_dim: {multiple_of: 0}", "1:25: bad-value: `multiple_of`: wanted an integer of at least 1, got 0"),
        ("head_dim: {max: x}", "1:17: bad-value: `head_dim`: wanted a bound such as `64`, got `x`"),
        # null
        ("arch: {present: false}", "1:17: bad-value: `present`: wanted true, got `false`"),
        ("arch: {absent: 1}", "1:16: bad-value: `absent`: wanted true, got `1`"),
        ("platform: absent", "1:11: never-null: `platform` is never null: it is never absent where it is known"),
        ("platform: present", "1:11: never-null: `platform` is never null: it is always present where it is known"),
        ("platform: {present: true}",
         "1:21: never-null: `platform` is never null: it is always present where it is known"),
        # the mapping of matchers
        ("head_dim: {}", "1:11: empty-matcher: `head_dim`: wanted a matcher, got none"),
        ("head_dim: {unknown: match}", "1:11: empty-matcher: `head_dim`: wanted a matcher, got none"),
        ("head_dim: {maxx: 1}", "1:12: unknown-matcher: no matcher `maxx`\n  hint: did you mean `max`?"),
        ("head_dim: {unknwn: match, min: 1}",
         "1:12: unknown-matcher: no matcher `unknwn`\n  hint: did you mean `unknown`?"),
        ("head_dim: {qq: 1}",
         f"1:12: unknown-matcher: no matcher `qq`\n  hint: one of {_MATCHERS}"),
        ("head_dim: {min: 1, unknown: maybe}", "1:29: bad-value: `unknown`: wanted match or fail, got `maybe`"),
        ("head_dim: {min: 1, unknown: true}", "1:29: bad-value: `unknown`: wanted match or fail, got `true`"),
        ("head_dim: {min: 1, unknown: [match]}", "1:29: bad-value: `unknown`: wanted match or fail, got a list"),
    ],
    ids=short,
)  # fmt: skip
def test_what_cannot_be_asked_is_told_with_its_place(when: str, said: str) -> None:
    """One mistake makes one problem: where it stands, what was wanted and got, and the nearest name."""
    assert problems_of_when(when) == [f"t.yaml:{said}"]


def test_every_mistake_is_told() -> None:
    """Reading goes on after a mistake, in groups and beside it."""
    when = """\
platfrm: cuda
head_dim: {min: x}
any:
  - arch: {in: nothing}
  - not: {steps: true}
  - all: []
causal: maybe
"""

    assert problems_of_when(when) == [
        "t.yaml:1:1: unknown-fact: no fact `platfrm`\n  hint: did you mean `platform`?",
        "t.yaml:2:17: bad-value: `head_dim`: wanted a bound such as `64`, got `x`",
        "t.yaml:4:16: unknown-set: no set `nothing`",
        "t.yaml:5:18: bad-value: `steps`: wanted an integer, got true",
        "t.yaml:6:10: wrong-type: wanted a list of mappings of facts, got an empty list",
        "t.yaml:7:9: bad-value: `causal`: wanted true or false, got the string `maybe`",
    ]


@pytest.mark.parametrize(
    "when",
    [
        "head_dim: {maxx: 1, minn: 2}",
        "head_dim: [true, x]",
        "head_dim: {min: true, max: true}",
    ],
)
def test_every_mistake_in_one_fact_is_told(when: str) -> None:
    """Two mistakes in the matchers or values of one fact are two problems."""
    assert len(problems_of_when(when)) == 2


def test_a_long_number_is_a_value() -> None:
    """A hexadecimal number of a thousand characters is asked for, or told to be wrong, like another."""
    digits = "f" * 998
    said = f"`mask_free`: wanted true or false, got the number {str(int(digits, 16))[:59]}…"

    assert truth(f"head_dim: 0x{digits}", {"head_dim": int(digits, 16)}) is True
    assert problems_of_when(f"mask_free: 0x{digits}") == [f"t.yaml:1:12: bad-value: {said}"]
