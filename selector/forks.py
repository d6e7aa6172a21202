"""What holds still while this process forks: a lock that another thread held would never be released in the child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something with locks, threads or connections that a child must not take over as they are."""

    def before_fork(self) -> None:
        """Hold still; the process forks next."""

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent as before, in the child from the beginning."""


def hold_still(one: Forked) -> None:
    """Let it hold still whenever this process forks, for as long as it is there."""
    known = weakref.ref(one)

    def before() -> None:
        if (found := known()) is not None:
            found.before_fork()

    def after(*, child: bool) -> None:
        if (found := known()) is not None:
            found.after_fork(child=child)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=before, after_in_parent=lambda: after(child=False), after_in_child=lambda: after(child=True)
        )
