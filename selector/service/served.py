"""The rules that are served: swapped whole, and the last good ones kept where newer ones are broken."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selector.lines import Lines
from selector.reloading import Reload
from selector.ruleset import RuleSet
from selector.selecting import Selector

if TYPE_CHECKING:
    from selector.decision import Outdated
    from selector.serving import Serving
    from selector.watching import Watcher

BODY = "body"
"""What a line is called that came over HTTP."""
_NO_MACHINE = {"platform": "cpu"}  # nobody asks about it: requests bring their own facts


@dataclass(frozen=True, slots=True)
class Now:
    """What serves at one moment: a request is answered by one of these from its beginning to its end."""

    serving: Serving
    lines: Lines

    @property
    def rules(self) -> RuleSet:
        """The rules."""
        return self.serving.rules

    @property
    def outdated(self) -> Outdated | None:
        """Since when newer rules are refused, and why; None where these are the newest."""
        return self.serving.outdated


class Served:
    """Holds the rules of a service. Raises `TableError` when they do not load at the start.

    `told` hears of every reload. Threads may share it.
    """

    def __init__(self, folders: tuple[str, ...], told: Callable[[Reload], object] | None = None) -> None:
        """Read the rules."""
        self._selector = Selector(rules=list(folders), facts=_NO_MACHINE, environment={})
        self._told = told
        self._lock = threading.Lock()
        self._watcher: Watcher | None = None
        serving = self._selector.serving
        self._now = Now(serving, Lines(serving.rules, name=BODY))

    def now(self) -> Now:
        """Give what serves now."""
        serving = self._selector.serving
        found = self._now
        if found.serving is serving:
            return found
        with self._lock:
            lines = found.lines if found.rules is serving.rules else Lines(serving.rules, name=BODY)
            self._now = Now(serving, lines)
            return self._now

    def reload(self) -> Reload:
        """Read the rules again; those that are broken are refused whole, and the old ones go on serving."""
        return self._heard(self._selector.reload())

    def watch(self) -> None:
        """Read them again whenever their files have changed and come to rest."""
        if self._selector.folders and self._watcher is None:
            from selector.watching import Watcher

            self._watcher = Watcher(self._selector, told=self._heard).start()

    def close(self) -> None:
        """Watch no more."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def _heard(self, reload: Reload) -> Reload:
        if reload.outcome == "swapped":
            self.now()  # the old rules go
            gc.collect()  # they hold each other, and what is as old is rarely looked at otherwise
        if self._told is not None:
            self._told(reload)
        return reload
