from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from selector import data
from selector.rules.text import read_file
from selector.structure import schema_faults

RULES = data.folder("rules")
SCHEMAS = data.folder("schemas")
SPECIAL = {path.stem for path in RULES.glob("*.yaml")} & {"vocabulary", "backends", "roles", "models", "warnings"}


def schema_of(path: Path) -> str:
    """Name the schema of a shipped rule file."""
    return path.stem if path.stem in SPECIAL else "rule-table"


def check(schema: str, *files: Path) -> subprocess.CompletedProcess[str]:
    """Run check-jsonschema, as an editor or a pre-commit hook would."""
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(SCHEMAS / f"{schema}.schema.json")]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


def test_the_schemas_are_schemas() -> None:
    """check-jsonschema holds every one of them against the schema of schemas."""
    files = [str(path) for path in SCHEMAS.glob("*.json")]
    command = [sys.executable, "-m", "check_jsonschema", "--check-metaschema", *files]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("schema", sorted({schema_of(path) for path in RULES.glob("*.yaml")}))
def test_shipped_rules_are_valid_in_editors(schema: str) -> None:
    """Every shipped rule file is valid for the schema that its first line names."""
    done = check(schema, *(path for path in RULES.glob("*.yaml") if schema_of(path) == schema))

    assert done.returncode == 0, done.stdout + done.stderr


def test_shipped_machines_are_valid_in_editors() -> None:
    """The facts files that are shipped as examples."""
    files = list((RULES / "machines").glob("*.yaml"))

    done = check("facts", *files)

    assert files
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(RULES.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_rules_have_no_faults(path: Path) -> None:
    """Nor in our own reading of the schemas."""
    assert schema_faults(schema_of(path), read_file(path).plain()) == []


BROKEN = {
    "rule-table": [
        ("platform_default", "use: TORCH_SDPA", "uses: TORCH_SDPA"),
        ("platform_default", "head_dim: 128", "head_dim: symbolik"),
        ("platform_default", "head_dim: 128", "head_dim: {multiple_off: 8}"),
        ("platform_default", "mask_free: true", "mask_free: 'yes'"),
        ("platform_default", "platform: cuda", "platform: cudda"),
        ("platform_default", "{in: blackwell_class}", "{inn: blackwell_class}"),
        ("platform_default", "table: platform_default", "table: platform_defaults"),
        ("platform_default", "because: It is always there and takes every call.", "until: x"),
        ("platform_default", "id: torch-sdpa", "id: Torch_SDPA"),
        ("explicit", "{present: true, unknown: fail}", "{unknown: fail}"),
        ("explicit", "  - id: able", "  - refuse: x\n    id: able"),
        ("role_fallback", "when: {configured.role: true}", "when: {}"),
    ],
    "vocabulary": [
        ("vocabulary", "type: boolean", "type: bool"),
        ("vocabulary", "order: cudnn", "order: version"),
        ("vocabulary", "mask_free:", "any:"),
        ("vocabulary", "distributions: [flashinfer-python]", "distribution: [flashinfer-python]"),
        ("vocabulary", "of: [num_heads, num_kv_heads], about: Whether there", "of: [num_heads], about: Whether there"),
    ],
    "backends": [
        ("backends", "default_name: SDPA", "default-name: SDPA"),
        ("backends", "dtype: {in: half, unknown: match}", "dtype: {in: half, unknown: maybe}"),
        ("backends", "skip_softmax: [target_sparsity", "skip_softmax: [[target_sparsity]"),
    ],
    "roles": [("roles", "wan2_1.self: self", "wan2_1.self: [self]")],
    "models": [
        ("models", "mask_free: true", "mask_free: 1"),
        ("models", "num_heads: 40", "num_heads: forty"),
        ("models", "mask: key_and_query_padding", "mask: padding"),
        ("models", "seq_len_kv: 14040", "seq_len_k: 14040"),
    ],
    "warnings": [("warnings", "warn:", "warns:")],
}


@pytest.mark.parametrize("schema", sorted(BROKEN))
def test_broken_rules_are_not_valid_in_editors(schema: str, tmp_path: Path) -> None:
    """Each kind of slip is found, both by check-jsonschema and by us."""
    files = []
    for number, (name, old, new) in enumerate(BROKEN[schema]):
        text = (RULES / f"{name}.yaml").read_text(encoding="utf-8")
        assert old in text
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text.replace(old, new, 1), encoding="utf-8")

    done = check(schema, *files)

    assert done.returncode == 1
    assert [path.name for path in files if str(path) not in done.stdout] == []
    assert [path.name for path in files if not schema_faults(schema, read_file(path).plain())] == []
