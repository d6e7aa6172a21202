"""A small check of a kernel before its first real call, remembered on disk for as long as nothing about it changes."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from selector.cache import cache_folder

if TYPE_CHECKING:
    from backends.interface import Backend, Geometry, Kernel
    from selector.decision import Decision
    from selector.ruleset import RuleSet

CHECKS = ("dense", "scale", "tail-of-keys", "grouped-heads", "key-lengths", "value-is-key")
"""Those of the conformance kit that a first use runs: what every call needs, and lengths."""
_OWN = "attention-selector"
_lock = threading.Lock()
_known: dict[str, Evidence] = {}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a first use showed: the checks that passed or were refused, and what was wrong with the others."""

    passed: tuple[str, ...]
    refused: tuple[str, ...]
    failed: tuple[str, ...]

    def __str__(self) -> str:
        """Tell it in one line."""
        return "; ".join(self.failed) or f"{len(self.passed)} checks passed"


def is_unverified(decision: Decision, rules: RuleSet) -> bool:
    """Whether a backend is one that nobody has verified for these facts, or comes from another distribution."""
    from backends.registry import available

    name = str(decision.backend)
    cautions = rules.backends[name].unverified
    return any(caution.when.holds(decision.facts) is True for caution in cautions) or available().get(name) != _OWN


def first_use(backend: Backend, kernel: Kernel, spec: Mapping[str, object], geometry: Geometry) -> Evidence:
    """Check a kernel, or recall what came of checking it before, in this process or another."""
    key = _key(backend, kernel, spec, geometry)
    with _lock:
        if key not in _known:
            _known[key] = _read(key) or _write(key, _check(backend, spec, geometry))
        return _known[key]


def forget() -> None:
    """Forget what this process remembers; what lies on disk stays."""
    with _lock:
        _known.clear()


def _check(backend: Backend, spec: Mapping[str, object], geometry: Geometry) -> Evidence:
    import torch

    from backends.conformance import ALL, run

    with torch.no_grad():
        report = run(backend, spec, geometry, checks=[check for check in ALL if check.name in CHECKS])
    named = {outcome: tuple(one.check for one in report.results if one.outcome == outcome) for outcome in report.counts}
    return Evidence(named["passed"], (*named["refused"], *named["cannot bind"]), tuple(map(str, report.failed)))


def _key(backend: Backend, kernel: Kernel, spec: Mapping[str, object], geometry: Geometry) -> str:
    """Name everything that the answer depends on: the code, the device, the geometry and the options."""
    import torch

    from selector import __version__

    device = torch.device(geometry.device)
    arch = f"sm_{''.join(map(str, torch.cuda.get_device_capability(device)))}" if device.type == "cuda" else device.type
    said = {
        "selector": __version__, "torch": torch.__version__, "backend": backend.name, "arch": arch,
        "build": str(getattr(kernel, "origin", None)), "checks": CHECKS, "spec": repr(sorted(spec.items())),
        **{name: value for name, value in asdict(geometry).items() if name != "device"},
    }  # fmt: skip
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


# --- on disk ------------------------------------------------------------------------------------------------------


def _read(key: str) -> Evidence | None:
    """Read what is remembered; what is damaged, or cannot be read, is as if it were not there."""
    try:
        data = json.loads((cache_folder() / "first-use" / f"{key}.json").read_text(encoding="utf-8"))
        lists = [data[name] for name in ("passed", "refused", "failed")]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in lists):
        return None
    passed, refused, failed = map(tuple, lists)
    return Evidence(passed, refused, failed)


def _write(key: str, evidence: Evidence) -> Evidence:
    """Remember a check, whole or not at all; a folder that cannot be written costs the check next time, and no more."""
    try:
        folder = cache_folder() / "first-use"
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{key}.{os.getpid()}"
        beside.write_text(json.dumps(asdict(evidence)), encoding="utf-8")
        beside.replace(folder / f"{key}.json")
    except (OSError, RuntimeError):
        pass
    return evidence
