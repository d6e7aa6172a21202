"""Facts of a machine whose form another fact settles."""

from __future__ import annotations

from tests.selector.rules.language import read_words

WORDS = """\
facts:
  platform: {type: string, group: machine, about: The stack.}
  arch:
    type: string
    group: machine
    about: The GPU.
    on: {fact: platform, value: cuda, regex: "sm_[0-9]+", example: sm_90}
  form:
    type: string
    group: request
    about: What a request has.
    on: {fact: platform, value: cuda, regex: "sm_[0-9]+", example: sm_90}
"""


def test_a_vocabulary_has_the_facts_of_a_machine_that_another_one_shapes() -> None:
    """Each with the form; facts of a request are looked at elsewhere."""
    found, problems = read_words(WORDS)

    assert problems == []
    assert [(fact.name, form.fact, form.value) for fact, form in found.shaped] == [("arch", "platform", "cuda")]
