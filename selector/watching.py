"""A watcher that reloads a selector when its rule files change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from selector.reloading import Reload, Stamp, stamp
from selector.selecting import Selector

_LOOK_EVERY = 0.5
SETTLE_SECONDS = 0.2


class Watcher:
    """Reloads a selector in a thread of its own once its rule files have changed and come to rest.

    Files count as at rest when nothing of them changed for `settle` seconds, so that several files saved one after the
    other are read together. A set that is broken is refused whole, and read again at the next change. `told` hears of
    every reload that was refused or changed something. Needs the package `watchfiles` (the extra `watch`); where its
    events do not arrive, as on some network folders, the files are looked at twice a second all the same.

    Raises `ValueError` for a selector whose rules are not read from files, and `ImportError` without `watchfiles`.
    """

    def __init__(
        self,
        selector: Selector,
        *,
        settle: float = SETTLE_SECONDS,
        shadow: bool = False,
        told: Callable[[Reload], object] | None = None,
    ) -> None:
        """Take note of what is to be watched."""
        if not selector.folders:
            raise ValueError("wanted a selector whose rules are read from folders or files, got one without any")
        import watchfiles  # noqa: F401 - an extra: missing, it is told here and not in the thread

        self.selector, self.settle, self.shadow, self.told = selector, settle, shadow, told
        self._folders = tuple(selector.folders)
        self._seen: Stamp | None = None  # so that what changed before this is found too
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Begin to watch; a watcher that is watching goes on."""
        if self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=self._run, name="attention-selector-watch", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End it, and wait for a reload that is under way."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        """Begin to watch."""
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self.stop()

    def _run(self) -> None:
        for _ in self._wakes():
            now = stamp(self._folders)
            while now != self._seen and not self._over.is_set():
                self._over.wait(self.settle)
                before, now = now, stamp(self._folders)
                if now == before:
                    self._reload(now)

    def _reload(self, now: Stamp) -> None:
        self._seen = now
        result = self.selector.reload(shadow=self.shadow)
        if self.told is not None and result.outcome != "unchanged":
            self.told(result)

    def _wakes(self) -> Iterator[None]:
        """Wake when something changes in the folders, and now and then in any case."""
        from watchfiles import watch

        while not self._over.is_set():
            there = self._watched()
            if not there:
                self._over.wait(_LOOK_EVERY)
                yield
                continue
            try:
                for _ in watch(
                    *there, stop_event=self._over, recursive=False, yield_on_timeout=True, raise_interrupt=False,
                    rust_timeout=int(_LOOK_EVERY * 1000), debounce=50, step=10,
                ):  # fmt: skip
                    yield
                    if self._watched() != there:
                        break
            except OSError:  # a folder went away between the look and the watch
                self._over.wait(_LOOK_EVERY)
                yield

    def _watched(self) -> list[Path]:
        """Give the folders to watch: those that are there, and for a single file the folder that it is in."""
        homes = [path if path.is_dir() else path.parent for path in map(Path, self._folders)]
        return sorted({home for home in homes if home.is_dir()})
