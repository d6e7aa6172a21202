"""Versions that stand for all, one by one, and held against many that are drawn."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from random import Random

import pytest
from packaging.version import Version

from selector.analysis.versions import spelt, versions
from selector.rules.orders import ORDERS

PARTS = (
    ("", "1!"),
    ("0", "1", "1.0", "1.1", "1.2", "1.2.0", "1.2.0.0.1", "1.2.1", "1.2.3", "1.3", "1.10", "2"),
    ("", "", "a0", "rc0", "rc1", "rc2"),
    ("", "", ".post0", ".post1", ".post2", ".post3"),
    ("", "", ".dev0", ".dev3", ".dev4"),
    ("", "", "+local", "+a"),
)
MENTIONED = (
    ("1.2",), ("1.2.0",), ("1.2rc1",), ("1.2.post1",), ("1.2.dev3",), ("1.2rc1.post2",), ("1.2rc1.dev3",),
    ("1.2.post1.dev3",), ("1.2rc1.post2.dev3",), ("1.2+local",), ("1.2.post0+local",), ("0",), ("1", "1.0"),
    ("1.2", "1.2.1"), ("1.2rc1", "1.2.0.0.1"), ("1.1.post1", "1.2.dev0"), ("1.10", "1.2+local", "1.2"),
)  # fmt: skip
SIGNS = (">=", "<=", ">", "<", "==", "!=", "~=", "==*", "!=*")


def compared(mentioned: Sequence[str], got: str) -> tuple[bool, ...]:
    """Give what every comparison with the mentioned versions says of one."""
    return tuple(ORDERS["pep440"].comparison(told)(got) for told in comparisons(tuple(mentioned)))


@functools.cache
def comparisons(mentioned: tuple[str, ...]) -> list[str]:
    """Give every comparison that may be written; a local label only where it can be."""
    found = []
    for sign, version in itertools.product(SIGNS, mentioned):
        read = Version(version)
        if sign.endswith("*") and version == read.base_version:
            found.append(f"{sign[:-1]}{version}.*")
        elif sign in ("==", "!="):
            found.append(f"{sign}{version}")
        elif not sign.endswith("*") and not (sign == "~=" and len(read.release) == 1):
            found.append(f"{sign}{read.public}")
    return found


@pytest.mark.parametrize("mentioned", MENTIONED, ids=" ".join)
def test_no_version_compares_as_none_that_is_given(mentioned: tuple[str, ...]) -> None:
    """Whatever its epoch, release, pre-release, post-release, development release and label."""
    dice = Random(" ".join(mentioned))
    drawn = {"".join(dice.choice(part) for part in PARTS) for _ in range(300)}

    answers = {compared(mentioned, one) for one in set(versions(mentioned))}

    assert [one for one in sorted(drawn) if compared(mentioned, one) not in answers] == []


@pytest.mark.parametrize(
    ("mentioned", "given"),
    [
        ([], "1.0"),
        (["nothing", ""], "1.0"),
        (["1.2"], ("1.2 1.3 2 1.2 1.2.0.1 1.2.post1 1.1 1.2.dev0 1.2.post0.dev0 1.2.0.0.1.dev0 1.3.dev0 2.dev0 "
                  "1.2.post0.dev0 1.2.dev0 1.2+local 0.dev0")),
        (["1.2.*", "x"], ("1.2 1.3 2 1.2 1.2.0.1 1.2.post1 1.1 1.2.dev0 1.2.post0.dev0 1.2.0.0.1.dev0 1.3.dev0 2.dev0 "
                         "1.2.post0.dev0 1.2.dev0 1.2+local 0.dev0")),
        (["0"], "0 1 0 0.0.1 0.post1 0.dev0 0.post0.dev0 0.0.1.dev0 1.dev0 0.post0.dev0 0.dev0 0+local 0.dev0"),
        (["1!2rc1"], ("1!2rc1 1!3 1!2 1!2.0.1 1!2.post1 1!1 1!2.dev0 1!2.post0.dev0 1!2.0.1.dev0 1!3.dev0 "
                     "1!2rc1.post0.dev0 1!2rc1.dev0 1!2rc2.dev0 1!2rc1+local 0.dev0")),
        (["3.0.post1"], ("3.0.post1 3.1 4 3.0 3.0.0.1 3.0.post1 3.0.dev0 3.0.post0.dev0 3.0.0.0.1.dev0 3.1.dev0 4.dev0 "
                        "3.0.post2.dev0 3.0.post1.dev0 3.0.post1+local 0.dev0")),
        (["3a1.post2.dev4"], ("3a1.post2.dev4 4 3 3.0.1 3.post1 2 3.dev0 3.post0.dev0 3.0.1.dev0 4.dev0 "
                             "3a1.post2.dev5 3a1.post2.dev0 3a1.post2.dev4+local 0.dev0")),
        (["1+local"], ("1 1+local 2 1 1.0.1 1.post1 0 2 1 1.0.1 1.post1 0 "
                      "1.dev0 1.post0.dev0 1.0.1.dev0 2.dev0 1.post0.dev0 1.dev0 1+local0 "
                      "1.dev0 1.post0.dev0 1.0.1.dev0 2.dev0 1.post0.dev0 1.dev0 1+local0 0.dev0")),
        (["1+local0", "1+local"], "1 1+local 1+local0 " + 3 * "2 1 1.0.1 1.post1 0 "
                                  + 3 * "1.dev0 1.post0.dev0 1.0.1.dev0 2.dev0 1.post0.dev0 1.dev0 1+local1 "
                                  + "0.dev0"),
        (["1.0.2", "1"], ("1 1.0.2 2 1 1.0.1 1.post1 0 1.0.3 1.1 2 1.0.2 1.0.2.0.1 1.0.2.post1 1.0.1 "
                         "1.dev0 1.post0.dev0 1.0.0.0.1.dev0 2.dev0 1.post0.dev0 1.dev0 1+local 1.0.2.dev0 "
                         "1.0.2.post0.dev0 1.0.2.0.0.0.1.dev0 1.0.3.dev0 1.1.dev0 2.dev0 1.0.2.post0.dev0 1.0.2.dev0 "
                         "1.0.2+local 0.dev0")),
    ],
)  # fmt: skip
def test_which_versions_are_given(mentioned: list[str], given: str) -> None:
    """Those that are mentioned, then plain ones, then the first behind each point where answers change."""
    assert list(versions(mentioned)) == given.split()


@pytest.mark.parametrize(
    ("version", "taken", "count", "given"),
    [
        ("1.0", set(), 0, []),
        ("1.0", set(), 1, ["v1.0"]),
        ("1.0", set(), 3, ["v1.0", " v1.0", "  v1.0"]),
        ("1.0", {"v1.0", "  v1.0"}, 2, [" v1.0", "   v1.0"]),
    ],
)
def test_other_spellings_mean_the_same(version: str, taken: set[str], count: int, given: list[str]) -> None:
    """None of them is taken."""
    assert list(spelt(version, taken, count)) == given
    assert {Version(one) for one in given} <= {Version(version)}
