"""Where the shipped rules and schemas are: beside the sources in a checkout, inside the package when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Give the folder of shipped data (`rules`, `schemas`)."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
