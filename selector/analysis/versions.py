"""Versions enough to stand for all: one in each stretch of PEP 440's order that comparisons can tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.version import InvalidVersion, Version

_LEAST = "0.dev0"


def versions(mentioned: Iterable[str]) -> Iterator[str]:
    """Give each version that is mentioned, plain ones near it, and the first behind each point where answers change.

    Those points are, for a version V: V itself and behind it, behind its local and its post-releases, the first
    development release of V and of what follows V in each of its series.
    """
    found = [version for text in mentioned for version in _read(text)]
    if not found:
        yield "1.0"
        return
    # 1.0 and 1.0.0 are equal, but what follows them in their series is not.
    texts = {str(version) for version in found} | {version.public for version in found}
    marks = sorted(map(Version, sorted(texts)))
    yield from map(str, marks)
    yield from (plain for mark in marks for plain in _plain(mark))
    depth = max(len(mark.release) for mark in marks)
    labels = {mark.local for mark in marks}
    label = next(
        label for label in ("local", *(f"local{number}" for number in range(len(labels)))) if label not in labels
    )
    for mark in marks:
        yield from _edges(mark, depth)
        yield f"{mark.public}+{label}"
    yield _LEAST


def _read(text: str) -> Iterator[Version]:
    try:
        yield Version(text.removesuffix(".*"))
    except InvalidVersion:
        return


def _head(mark: Version) -> str:
    return f"{mark.epoch}!" if mark.epoch else ""


def _next(mark: Version) -> Iterator[str]:
    """Give what follows a version in each of its series: 1.2.3 is followed by 1.2.4, 1.3 and 2."""
    for length in range(len(mark.release), 0, -1):
        *series, last = mark.release[:length]
        yield _head(mark) + ".".join(map(str, [*series, last + 1]))


def _plain(mark: Version) -> Iterator[str]:
    """Give versions that a person would think of: the next ones, the release itself, a fix, a post-release."""
    yield from _next(mark)
    yield mark.base_version
    yield f"{mark.base_version}.0.1"
    yield f"{mark.base_version}.post1"
    if mark.release[-1]:
        *series, last = mark.release
        yield _head(mark) + ".".join(map(str, [*series, last - 1]))


def _edges(mark: Version, depth: int) -> Iterator[str]:
    """Give the first version behind each point where a comparison with this one may change its answer."""
    base, public = mark.base_version, mark.public
    yield f"{base}.dev0"
    yield f"{base}.post0.dev0"
    yield base + ".0" * depth + ".1.dev0"
    yield from (f"{after}.dev0" for after in _next(mark))
    if mark.dev is not None:
        release = public.removesuffix(f".dev{mark.dev}")
        yield f"{release}.dev{mark.dev + 1}"
        yield f"{release}.dev0"
        return
    before = public.partition(".post")[0]
    post = 0 if mark.post is None else mark.post + 1
    yield f"{before}.post{post}.dev0"
    yield f"{public}.dev0"
    if mark.pre is not None:
        yield f"{base}{mark.pre[0]}{mark.pre[1] + 1}.dev0"


def spelt(version: str, taken: set[str], count: int) -> Iterator[str]:
    """Give other spellings of a version: texts that differ, and mean the same."""
    spelling = f"v{version}"
    for _ in range(count):
        while spelling in taken:
            spelling = f" {spelling}"
        yield spelling
        spelling = f" {spelling}"
