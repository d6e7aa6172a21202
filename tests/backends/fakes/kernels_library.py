"""The `kernels` library in the signatures and habits of three of its ages, over a hub that is a dictionary.

They import what they load from real files, as the library does, and so know a kernel by its path.
"""

from __future__ import annotations

import os
import sys
import types
import warnings
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


class Variant(NamedTuple):
    """A build by its name."""

    variant_str: str


class Accepted(NamedTuple):
    """A build that fits."""

    variant: Variant


class Rejected(NamedTuple):
    """A build that does not."""

    variant: Variant
    reason: str


class RepoInfo(NamedTuple):
    """Where a kernel of the hub came from."""

    repo_id: str
    revision: str


class LoadedKernel(NamedTuple):
    """A kernel of this process."""

    module: ModuleType
    repo_info: RepoInfo | None


@dataclass
class Hub:
    """Folders by repository and version, or the error that a version ends in; and what was asked."""

    kernels: Mapping[tuple[str, int], Path | Exception]
    decisions: Mapping[int, list[Accepted | Rejected]] = field(default_factory=dict)
    asked: list[dict[str, object]] = field(default_factory=list)
    loaded: list[LoadedKernel] = field(default_factory=list)

    def load(self, repo_id: str, version: int, **call: object) -> ModuleType:
        """The kernel, from a local folder first."""
        self.asked.append({"version": version, **call})
        local = dict(entry.split("=") for entry in os.environ.get("LOCAL_KERNELS", "").split(":") if entry)
        found = Path(local[repo_id]) if repo_id in local else self.kernels.get((repo_id, version))
        if found is None:
            raise ValueError(f"Version {version} not found, available versions: 9")
        if isinstance(found, Exception):
            raise found
        module = imported(next((found / "build").iterdir()) / "__init__.py")
        info = None if repo_id in local else RepoInfo(repo_id, f"commit-of-v{version}")
        self.loaded.append(LoadedKernel(module, info))
        return module


def imported(path: Path) -> ModuleType:
    """The module in a file."""
    spec = util.spec_from_file_location(f"kernel_{abs(hash(path))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def library(**contents: object) -> ModuleType:
    """A module with these contents."""
    made = types.ModuleType("kernels")
    made.__dict__.update(contents)
    return made


def before_trust(hub: Hub) -> ModuleType:
    """Up to 0.13: versions are specifiers, nothing is asked of a publisher."""

    def get_kernel(
        repo_id: str,
        revision: str | None = None,
        version: str | None = None,
        user_agent: str | dict[str, str] | None = None,
    ) -> ModuleType:
        assert version is None, "a specifier such as '>=1.0' of tags that kernels no longer have"
        assert revision is not None
        return hub.load(repo_id, int(revision.removeprefix("v")), revision=revision)

    return library(get_kernel=get_kernel)


def before_lists(hub: Hub) -> ModuleType:
    """0.14 to 0.16: a list of trusted names is warned of, and the hub asked."""

    def get_kernel(
        repo_id: str,
        revision: str | None = None,
        version: int | None = None,
        backend: str | None = None,
        user_agent: str | dict[str, str] | None = None,
        trust_remote_code: bool | list[str] = False,  # noqa: FBT002 - the library's
    ) -> ModuleType:
        if isinstance(trust_remote_code, list):
            warnings.warn("Signing identity verification is not yet implemented.", stacklevel=2)
        if trust_remote_code is not True:
            raise ValueError(f"Kernel repository '{repo_id}' could not verify publisher trust status.")
        assert version is not None
        return hub.load(repo_id, version, trust_remote_code=trust_remote_code)

    return library(get_kernel=get_kernel, get_loaded_kernels=lambda: list(hub.loaded))


def newest(hub: Hub) -> ModuleType:
    """0.17: keywords alone, a list names repositories, and every build gets a verdict."""

    def get_kernel(
        repo_id: str,
        *,
        revision: str | None = None,
        version: int | None = None,
        backend: str | None = None,
        user_agent: str | dict[str, str] | None = None,
        trust_remote_code: bool | list[str] = False,
        check_arch: bool = True,
    ) -> ModuleType:
        if revision is None and version is None:
            raise ValueError("A kernel version or revision must be specified.")
        assert isinstance(trust_remote_code, list)
        assert repo_id in trust_remote_code
        assert version is not None
        return hub.load(repo_id, version, trust_remote_code=trust_remote_code)

    def get_kernel_variants(
        repo_id: str, *, revision: str | None = None, version: int | None = None, backend: str | None = None
    ) -> list[Accepted | Rejected]:
        assert version is not None
        if version not in hub.decisions:
            raise ConnectionError("the hub is out of reach")
        return hub.decisions[version]

    return library(
        get_kernel=get_kernel,
        get_loaded_kernels=lambda: list(hub.loaded),
        get_kernel_variants=get_kernel_variants,
    )
