from __future__ import annotations

from pathlib import Path

import pytest

from selector.probe.system import THIS_SYSTEM, UNKNOWN, installed_version, list_folder, read_text

METADATA = b"Metadata-Version: 2.1\nName: flash-attn\n"


def write_metadata(site: Path, content: bytes | None, folder: str = "flash_attn-2.8.3.dist-info") -> None:
    """Make a distribution whose metadata is these bytes, or missing."""
    (site / folder).mkdir(parents=True)
    if content is not None:
        (site / folder / "METADATA").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "version"),
    [
        pytest.param(METADATA + b"Version: 2.8.3\n", "2.8.3", id="a version"),
        pytest.param(METADATA, UNKNOWN, id="no version"),
        pytest.param(METADATA + b"Version: \n", UNKNOWN, id="an empty version"),
        pytest.param(None, UNKNOWN, id="no file"),
        pytest.param(b"", UNKNOWN, id="an empty file"),
        pytest.param(METADATA + b"Author: \xff\xfe\nVersion: 2.8.3\n", UNKNOWN, id="not UTF-8"),
    ],
)
def test_a_version_is_read_from_metadata_or_is_unknown(tmp_path: Path, content: bytes | None, version: str) -> None:
    """A distribution that is there is never reported as absent, whatever state its metadata is in."""
    write_metadata(tmp_path, content)

    assert installed_version("flash-attn", [str(tmp_path)]) == version


def test_metadata_that_is_a_folder_is_unknown(tmp_path: Path) -> None:
    """An error of the file system is no crash."""
    (tmp_path / "flash_attn-2.8.3.dist-info" / "METADATA").mkdir(parents=True)

    assert installed_version("flash-attn", [str(tmp_path)]) == UNKNOWN


@pytest.mark.parametrize("left", [None, b"\xff"])
def test_a_readable_version_counts_before_what_an_uninstall_left(tmp_path: Path, left: bytes | None) -> None:
    """Leftovers earlier on the path do not hide the distribution that works."""
    write_metadata(tmp_path / "old", left, "flash_attn-2.7.0.dist-info")
    write_metadata(tmp_path / "new", METADATA + b"Version: 2.8.3\n")

    assert installed_version("flash-attn", [str(tmp_path / "old"), str(tmp_path / "new")]) == "2.8.3"


def test_a_distribution_is_found_by_its_own_name_only(tmp_path: Path) -> None:
    """FA4 alone brings a module `flash_attn`, and is not FA2 for that."""
    write_metadata(tmp_path, b"Name: flash-attn-4\nVersion: 4.0.0b18\n", "flash_attn_4-4.0.0b18.dist-info")
    (tmp_path / "flash_attn" / "cute").mkdir(parents=True)

    assert installed_version("flash-attn", [str(tmp_path)]) is None
    assert installed_version("flash_attn-4", [str(tmp_path)]) == "4.0.0b18"


def test_the_default_path_is_this_process_s_own() -> None:
    """Without a path, what this process could import counts."""
    assert installed_version("pytest") == pytest.__version__
    assert THIS_SYSTEM.version("a-name-that-nobody-installs") is None


def test_files_and_folders_that_cannot_be_read_are_no_error(tmp_path: Path) -> None:
    """A missing file is None and a missing folder is empty; bytes that are not UTF-8 are replaced."""
    (tmp_path / "b").write_bytes(b"1 \xff")
    (tmp_path / "a").mkdir()

    assert read_text(str(tmp_path / "missing")) is None
    assert read_text(str(tmp_path / "b")) == "1 �"
    assert list_folder(str(tmp_path / "missing")) == ()
    assert list_folder(str(tmp_path)) == ("a", "b")
