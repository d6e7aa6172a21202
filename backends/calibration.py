"""Calibrated curves of Skip-Softmax, as NVIDIA's Model Optimizer leaves them in a component's `config.json`.

    {"sparse_attention_config": {"config_groups": {"group_0": {
        "algorithm": "skip_softmax",
        "threshold_scale_factor": {"formula": "a * exp(b * target_sparsity)", "coefficients": {"a": 1000, "b": 5}},
        "ignore": ["blocks.0.attn1"]}}}}

Older files say `prefill` for `coefficients`. A target sparsity and a timestep that stand there too are not read: those
are the user's to choose.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BLOCK = "sparse_attention_config"
ALGORITHM = "skip_softmax"
FORMULA = "a*exp(b*target_sparsity)"


class CalibrationError(ValueError):
    """A calibration is there and cannot be read; the message says where, what was wanted and what was got."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The scale factor of a kernel's threshold as a function of the sparsity that is wanted: a · exp(b · sparsity)."""

    a: float
    b: float

    def scale_factor(self, target_sparsity: float) -> float:
        """What the kernel divides by the number of keys to get its threshold."""
        return self.a * math.exp(self.b * target_sparsity)


@dataclass(frozen=True, slots=True)
class ComponentCurve:
    """The curve of one component, and the patterns of the layers in it that stay dense."""

    component: str
    curve: Curve
    ignore: tuple[str, ...] = ()

    def holds(self, layer: str) -> bool:
        """Whether the layer belongs to this component; a component without a name holds every layer."""
        return not self.component or layer == self.component or layer.startswith(f"{self.component}.")

    def ignores(self, layer: str) -> bool:
        """Whether a pattern matches the layer or what contains it, by its full name or its name in the component."""
        names = (layer, layer.removeprefix(f"{self.component}."))
        return any(fnmatchcase(name, form) for name in names for p in self.ignore for form in (p, f"{p}.*"))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The curves of a checkpoint, one a component."""

    components: tuple[ComponentCurve, ...]

    def curve(self, layer: str) -> Curve | None:
        """The curve of the layer (`transformer_2.blocks.5.attn1`), or None where it has none and so stays dense.

        Of the components that hold the layer the one with the longest name counts.
        """
        holding = [component for component in self.components if component.holds(layer)]
        own = max(holding, key=lambda component: len(component.component), default=None)
        return None if own is None or own.ignores(layer) else own.curve


def read_checkpoint(root: Path | str, components: Sequence[str] = ("transformer", "transformer_2")) -> Calibration:
    """The curves in the `config.json` of each of the components, folders below `root`.

    A component without that file or without a calibration in it has no curve: its layers stay dense. Raises
    `CalibrationError` for a file that is not JSON and for a calibration that cannot be used.
    """
    found = [_component(Path(root) / name / "config.json", name) for name in components]
    return Calibration(tuple(curve for curve in found if curve is not None))


def read_config(config: Mapping[str, object], component: str = "", place: str = "config.json") -> ComponentCurve | None:
    """The curve in the contents of one `config.json`, or None without any; `place` is for messages.

    Raises `CalibrationError` as `read_checkpoint` does.
    """
    block = config.get(BLOCK)
    if block is None:
        return None
    groups = _mapping(_mapping(block, f"{place}: {BLOCK}").get("config_groups", {}), f"{place}: {BLOCK}.config_groups")
    ours = {f"{place}: {BLOCK}.config_groups.{name}": group for name, group in groups.items() if _skips(group)}
    if not ours:
        return None
    if len(ours) > 1:
        raise CalibrationError(f"{place}: wanted one group of `{ALGORITHM}`, got {len(ours)}")
    [(where, group)] = ours.items()
    group = _mapping(group, where)
    return ComponentCurve(component, _curve(group, where), _patterns(group.get("ignore", []), f"{where}.ignore"))


def _component(path: Path, name: str) -> ComponentCurve | None:
    if not path.is_file():
        return None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CalibrationError(f"{path}: wanted JSON, got {type(error).__name__}: {error}") from error
    return read_config(_mapping(config, str(path)), name, str(path))


def _skips(group: object) -> bool:
    """Whether the group is of Skip-Softmax: by its algorithm or, without one, by what only that has."""
    if not isinstance(group, dict):
        return False
    return bool(group["algorithm"] == ALGORITHM if "algorithm" in group else "threshold_scale_factor" in group)


def _curve(group: Mapping[str, object], where: str) -> Curve:
    where = f"{where}.threshold_scale_factor"
    factor = _mapping(group.get("threshold_scale_factor"), where)
    formula = factor.get("formula")
    if not isinstance(formula, str) or "".join(formula.split()) != FORMULA:
        raise CalibrationError(f"{where}.formula: wanted `{FORMULA}`, got {formula!r}")
    key = "coefficients" if "coefficients" in factor else "prefill"
    numbers = _mapping(factor.get(key), f"{where}.{key}")
    a, b = (_number(numbers.get(name), f"{where}.{key}.{name}") for name in "ab")
    if a < 0:
        raise CalibrationError(f"{where}.{key}.a: wanted 0 or more, got {a}")
    return Curve(a, b)


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise CalibrationError(f"{where}: wanted a mapping, got {value!r}")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise CalibrationError(f"{where}: wanted a finite number, got {value!r}")
    return float(value)


def _patterns(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(pattern, str) for pattern in value):
        raise CalibrationError(f"{where}: wanted a list of patterns, got {value!r}")
    return tuple(value)
