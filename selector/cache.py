"""The user's cache folder, for what may be found again and is only quicker to remember."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "ATTENTION_SELECTOR_CACHE"
_OWN = "attention-selector"


def cache_folder() -> Path:
    """Give the folder of what is remembered: that of the environment, or the user's."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home) / _OWN if home else Path.home() / ".cache" / _OWN
