"""Curves of Skip-Softmax read from a checkpoint."""

from __future__ import annotations

import copy
import json
import math
import re
from typing import TYPE_CHECKING

import pytest

from backends.calibration import Calibration, CalibrationError, ComponentCurve, Curve, read_checkpoint, read_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

GROUP: dict[str, Any] = {
    "algorithm": "skip_softmax",
    "threshold_scale_factor": {
        "formula": "a * exp(b * target_sparsity)",
        "coefficients": {"a": 2142.7, "b": 4.28},
    },
    "target_sparsity": 0.45,
    "disabled_until_timestep": 0.8,
    "targets": ["WanAttention"],
    "ignore": ["blocks.0.attn1"],
}


def config(**groups: object) -> dict[str, Any]:
    """The contents of a component's file."""
    return {"_class_name": "WanTransformer3DModel", "sparse_attention_config": {"config_groups": groups}}


def write(root: Path, component: str, contents: object) -> None:
    """A component's folder with its file."""
    (root / component).mkdir()
    text = contents if isinstance(contents, str) else json.dumps(contents)
    (root / component / "config.json").write_text(text, encoding="utf-8")


def test_a_curve() -> None:
    """The factor is a · exp(b · sparsity)."""
    assert Curve(2.0, 1.0).scale_factor(0.5) == 2 * math.exp(0.5)
    assert Curve(100.0, 0.0).scale_factor(0.9) == 100.0


def test_a_group_of_coefficients() -> None:
    """Only the curve and the patterns are read: how sparse, and when, the user says."""
    assert read_config(config(group_0=GROUP), "transformer") == ComponentCurve(
        "transformer", Curve(2142.7, 4.28), ("blocks.0.attn1",)
    )


def test_older_files_say_prefill() -> None:
    """The coefficients of decoding stand beside it and are for nobody here."""
    group = {
        "threshold_scale_factor": {
            "formula": "a*exp(b*target_sparsity)",
            "prefill": {"a": 7.93, "b": 8.61},
            "decode": {"a": 0.12, "b": 9.85},
        },
    }

    assert read_config(config(group_0=group)) == ComponentCurve("", Curve(7.93, 8.61), ())


def test_groups_of_other_algorithms_are_passed_over() -> None:
    """The first that is ours counts, whether it names its algorithm or has a factor only."""
    other = {"algorithm": "sparse_blocks", "threshold_scale_factor": 3}

    assert read_config(config(group_0=other, group_1="none", group_2=GROUP)) == read_config(config(group_2=GROUP))
    assert read_config(config(group_0=other)) is None


@pytest.mark.parametrize("contents", [{}, {"sparse_attention_config": None}, {"sparse_attention_config": {}}])
def test_no_calibration(contents: dict[str, object]) -> None:
    """Is no error."""
    assert read_config(contents) is None


CALIBRATION = Calibration(
    (
        ComponentCurve("transformer", Curve(1.0, 1.0), ("blocks.0.attn1", "blocks.*.attn2", "transformer.head")),
        ComponentCurve("transformer_2", Curve(2.0, 2.0), ("blocks.0",)),
    )
)


@pytest.mark.parametrize(
    ("layer", "a"),
    [
        ("transformer.blocks.5.attn1", 1.0),
        ("transformer_2.blocks.5.attn1", 2.0),
        ("transformer.blocks.0.attn1", None),
        ("transformer.blocks.0.attn1.inner", None),
        ("transformer.blocks.0.attn10", 1.0),
        ("transformer.blocks.31.attn2", None),
        ("transformer.head", None),
        ("transformer_2.blocks.0.attn1", None),
        ("transformer_2.blocks.31.attn2", 2.0),
        ("transformer_3.blocks.5.attn1", None),
        ("text_encoder.layer.0", None),
        ("blocks.5.attn1", None),
        ("transformer", 1.0),
    ],
)
def test_a_layer_and_its_curve(layer: str, a: float | None) -> None:
    """By its component; patterns match the full name or the one in the component, and what lies below it."""
    curve = CALIBRATION.curve(layer)

    assert (None if curve is None else curve.a) == a


def test_the_longest_component_counts() -> None:
    """Where one lies in another; without a name it holds every layer."""
    calibration = Calibration(
        (
            ComponentCurve("", Curve(1.0, 0.0)),
            ComponentCurve("a", Curve(2.0, 0.0)),
            ComponentCurve("a.b", Curve(3.0, 0.0)),
        )
    )

    assert [calibration.curve(layer) for layer in ("x.y", "a.c", "a.b.c")] == [
        Curve(1.0, 0.0),
        Curve(2.0, 0.0),
        Curve(3.0, 0.0),
    ]


def test_a_checkpoint(tmp_path: Path) -> None:
    """A file for each expert; a component without one, or without a calibration, has no curve."""
    write(tmp_path, "transformer", config(group_0=GROUP))
    write(tmp_path, "vae", {"_class_name": "AutoencoderKL"})

    assert read_checkpoint(tmp_path) == Calibration(
        (ComponentCurve("transformer", Curve(2142.7, 4.28), ("blocks.0.attn1",)),)
    )
    assert read_checkpoint(tmp_path, ["vae", "unet"]) == Calibration(())


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The group with a change."""
    group = copy.deepcopy(GROUP)
    change(group)
    return config(group_0=group)


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("no mapping", {"sparse_attention_config": 3}, "sparse_attention_config: wanted a mapping, got 3"),
    (
        "no groups",
        {"sparse_attention_config": {"config_groups": [GROUP]}},
        f"sparse_attention_config.config_groups: wanted a mapping, got {[GROUP]!r}",
    ),
    (
        "no factor",
        changed(lambda group: group.pop("threshold_scale_factor")),
        "sparse_attention_config.config_groups.group_0.threshold_scale_factor: wanted a mapping, got None",
    ),
    (
        "another formula",
        changed(lambda group: group["threshold_scale_factor"].update(formula="a * b ** target_sparsity")),
        (
            "sparse_attention_config.config_groups.group_0.threshold_scale_factor.formula: "
            "wanted `a*exp(b*target_sparsity)`, got 'a * b ** target_sparsity'"
        ),
    ),
    (
        "no formula",
        changed(lambda group: group["threshold_scale_factor"].pop("formula")),
        (
            "sparse_attention_config.config_groups.group_0.threshold_scale_factor.formula: "
            "wanted `a*exp(b*target_sparsity)`, got None"
        ),
    ),
    (
        "no coefficients",
        changed(lambda group: group["threshold_scale_factor"].pop("coefficients")),
        "sparse_attention_config.config_groups.group_0.threshold_scale_factor.prefill: wanted a mapping, got None",
    ),
    *[
        (
            f"a of {value!r}",
            changed(lambda group, value=value: group["threshold_scale_factor"]["coefficients"].update(a=value)),  # type: ignore[misc]
            (
                "sparse_attention_config.config_groups.group_0.threshold_scale_factor.coefficients.a: "
                f"wanted a finite number, got {value!r}"
            ),
        )
        for value in (None, True, "1", math.inf)
    ],
    (
        "a below zero",
        changed(lambda group: group["threshold_scale_factor"]["coefficients"].update(a=-1)),
        (
            "sparse_attention_config.config_groups.group_0.threshold_scale_factor.coefficients.a: "
            "wanted 0 or more, got -1.0"
        ),
    ),
    (
        "patterns that are none",
        changed(lambda group: group.update(ignore="blocks.0")),
        "sparse_attention_config.config_groups.group_0.ignore: wanted a list of patterns, got 'blocks.0'",
    ),
    ("two groups", config(group_0=GROUP, group_1=GROUP), "wanted one group of `skip_softmax`, got 2"),
]


@pytest.mark.parametrize(("contents", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_cannot_be_used(contents: dict[str, Any], message: str) -> None:
    """The place in the file, what was wanted and what was got."""
    with pytest.raises(CalibrationError, match=f"^{re.escape(f'here.json: {message}')}$"):
        read_config(contents, place="here.json")


@pytest.mark.parametrize(("text", "got"), [("{", "JSONDecodeError"), ("[]", "wanted a mapping, got []")])
def test_a_file_that_is_none(tmp_path: Path, text: str, got: str) -> None:
    """Names the file; the reader's own error is the cause."""
    write(tmp_path, "transformer", text)
    path = tmp_path / "transformer" / "config.json"

    with pytest.raises(CalibrationError, match=f"^{re.escape(str(path))}: .*{re.escape(got)}"):
        read_checkpoint(tmp_path)
