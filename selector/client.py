"""A selector whose rules come from a service, fetched and kept, so that no decision waits for a network."""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from selector.closing import Closing
from selector.decision import Outdated
from selector.fetching import BOUNDS, Remote, RemoteError, rules_of
from selector.forks import hold_still
from selector.reloading import Reload
from selector.rules.problems import ProblemsError, shown
from selector.rules.text import read_bytes
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet
from selector.selecting import Selector
from selector.serving import Serving, refusing
from selector.whole_files import write_whole

if TYPE_CHECKING:
    from selector.config import AttentionConfig
    from selector.decision_logs import Log

__all__ = ["RemoteError", "RemoteSelector"]


class RemoteSelector(Selector, Closing):
    """A `Selector` that decides here, with the rules of the service at `url`.

    They are fetched once, and asked for again every `refresh_seconds` (about; None: never) by a thread, and by
    `refresh`. What arrives is taken whole, and only where it loads, has the digest that the service names, and suits
    the machine's facts and the config. Otherwise the last good rules serve on, and every decision says so
    (`Decision.outdated`) until a refresh succeeds. `timeout` is for one answer, in seconds, from the connection to the
    last byte. `cache` is a file that holds what was fetched last, with which a process starts where the service cannot
    be reached. `ca` is a file of certificates to trust in place of the system's. The rest is as `Selector` has it.

    Raises `RemoteError` where there is no answer and nothing in the cache, and what `Selector` raises. `close`, or the
    end of a `with` block, ends the thread; the rules serve on.
    """

    def __init__(  # noqa: PLR0913 - what a selector is made of, and where its rules come from
        self,
        url: str,
        *,
        facts: Mapping[str, object] | str | Path | None = None,
        device: int = 0,
        config: AttentionConfig | Mapping[str, object] | str | Path | None = None,
        backend: str | None = None,
        policy: str | None = None,
        environment: Mapping[str, str] | None = None,
        log: Log | str | Path | None = None,
        first_use_check: bool | None = None,
        refresh_seconds: float | None = 30,
        timeout: float = 5,
        cache: str | Path | None = None,
        ca: str | Path | None = None,
    ) -> None:
        """Fetch the rules, check everything against them, and begin to refresh."""
        for name, seconds in (("refresh_seconds", refresh_seconds), ("timeout", timeout)):
            if seconds is not None and not 0 < seconds <= threading.TIMEOUT_MAX:
                raise ValueError(f"`{name}`: wanted a number of seconds over 0, got {seconds}")
        remote = Remote.at(url, timeout, ca)
        self.remote: Remote | None = remote
        self._cache, self._every = cache, refresh_seconds
        self._over: threading.Event | None = None
        rules, outdated = self._first(remote)
        super().__init__(
            rules=rules, facts=facts, device=device, config=config, backend=backend, policy=policy,
            environment=environment, log=log, first_use_check=first_use_check,
        )  # fmt: skip
        if outdated is not None:
            self.serving = self.serving.kept(outdated)
        hold_still(self)
        self.start()

    def _first(self, remote: Remote) -> tuple[RuleSet, Outdated | None]:
        """Fetch the rules, or take those of the cache where they cannot be fetched."""
        try:
            found = remote.whole()
        except ProblemsError as error:
            if self._cache is None or not Path(self._cache).exists():
                raise
            name = shown(str(self._cache), 4096)
            try:
                return rules_of(read_bytes(Path(self._cache), name, BOUNDS), name), refusing(error, None)
            except ProblemsError as broken:
                raise RemoteError([*error.problems, *broken.problems]) from error
        self._keep(found.text)
        return found.rules, None

    # --- newer rules ---

    def refresh(self) -> Reload:
        """Ask the service for newer rules, now; as `reload` does."""
        return self.reload()

    def reload(self, *, shadow: bool = False) -> Reload:
        """Ask the service for newer rules and, if all is well with them, let them serve from the next decision on.

        Where there is no answer, or one that will not do, the old rules serve on and every decision says since when and
        why (`Decision.outdated`). With `shadow` the newer rules decide beside the old ones, as for `Selector`; while
        some do, so do those that the thread brings. Raises `ValueError` for what `on` gave.
        """
        return super().reload(shadow=shadow)

    def _see_that_it_reloads(self) -> None:
        if self.remote is None:
            raise ValueError("wanted the selector that `on` was called on: what it gave is not refreshed")

    def _newest(self) -> Serving:
        found = None if self.remote is None else self.remote.newer(self.rules.digest)
        if found is None:
            return self.serving
        newer = self._given.serve(found.rules)
        self._keep(found.text)
        return newer

    def _refused(self, error: ProblemsError) -> Reload:
        """Serve on, and say so; it is logged once and not at every refresh."""
        before = self.serving.outdated
        if before is not None and before == refusing(error, before):
            return Reload("refused", self.rules.digest, problems=error.problems)
        return super()._refused(error)

    def _keep(self, text: bytes) -> None:
        """Write the cache; where that fails, what was fetched serves all the same, and the log has a warning."""
        if self._cache is None:
            return
        try:
            write_whole(str(self._cache), text.decode())
        except ProblemsError as error:
            import structlog  # only where something is logged

            structlog.get_logger("attention_selector").warning(f"the rules are not kept: {error}")

    # --- the thread ---

    def start(self) -> None:
        """Begin to refresh again after `close`, or in a copy; where it is done already it goes on."""
        if self._over is None and self._every is not None and self.remote is not None:
            self._over = threading.Event()
            weakref.finalize(self, self._over.set)  # the thread does not outlive the selector
            target, given = _refreshing, (weakref.ref(self), self._over, self._every)
            threading.Thread(target=target, args=given, name="attention-selector-refresh", daemon=True).start()

    def close(self) -> None:
        """Refresh no more; the rules serve on."""
        if self._over is not None:
            self._over.set()
            self._over = None

    def before_fork(self) -> None:
        """Do nothing: what serves is swapped at once, and waiting for an answer that is under way could take long."""

    def after_fork(self, *, child: bool) -> None:
        """Go on; a child refreshes with a thread of its own."""
        if child:
            self._reloading = threading.RLock()
            if self._over is not None:
                self._over = None
                self.start()

    def on(self, machine: Mapping[str, Value]) -> Selector:
        """Give the same selector for another machine's facts; it is not refreshed with this one."""
        other = super().on(machine)
        if isinstance(other, RemoteSelector):
            other.remote = None
        return other

    def __getstate__(self) -> dict[str, object]:
        """Give what can be copied; a copy refreshes by hand, or after `start`."""
        return {**super().__getstate__(), "_over": None}


def _refreshing(known: weakref.ref[RemoteSelector], over: threading.Event, every: float) -> None:
    """Refresh until it is over; the processes of a fleet do so at different moments."""
    while not over.wait(every * random.uniform(0.9, 1.1)):  # noqa: S311 - no secret
        selector = known()
        if selector is None:
            return
        selector.reload(shadow=selector.shadow is not None)
        del selector
