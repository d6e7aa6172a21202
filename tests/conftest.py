"""What holds for every test."""

from __future__ import annotations

import os

# Tests neither read nor fill the cache of the user who runs them.
os.environ.setdefault("ATTENTION_SELECTOR_CACHE", os.devnull)
