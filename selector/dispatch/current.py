"""Which selector speaks where none is given: the innermost of `use_backends`, or else that of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from selector.selecting import Selector


class _Stack(threading.local):
    """What `use_backends` has put on top of what, in each thread for itself; compiled code guards it."""

    def __init__(self) -> None:
        self.selectors: tuple[Selector, ...] = ()


class _Default:
    """The selector of this process, made on first use."""

    def __init__(self) -> None:
        self.selector: Selector | None = None
        self.lock = threading.Lock()

    def make(self) -> bool:
        """Make it, once; traced code runs this and does not trace it."""
        with self.lock:
            if self.selector is None:
                self.selector = Selector()
        return True

    make._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001 - what torch's decorator sets


_STACK = _Stack()
_DEFAULT = _Default()


def this_machine() -> Selector:
    """Give the selector of this process: shipped rules, this machine, the environment's config; made on first use."""
    import torch  # on first use alone

    if torch.compiler.is_compiling() or _DEFAULT.selector is None:
        _DEFAULT.make()  # before it is looked at: traced code would remember that it was not there
    if _DEFAULT.selector is None:
        raise RuntimeError("wanted the selector of this process, got none")
    return _DEFAULT.selector


def current() -> Selector:
    """Give the selector that speaks here."""
    stack = _STACK.selectors
    return stack[-1] if stack else this_machine()


def current_untraced() -> Selector:
    """Give the same in code that is not traced, and may look at what compiled code must not guard."""
    stack = _STACK.selectors
    return stack[-1] if stack else _DEFAULT.selector or this_machine()


@contextmanager
def use_backends(choice: Selector | str) -> Iterator[Selector]:
    """Let a selector, or a backend by its name, speak for all calls in the block that bring no selector.

    It holds in this thread alone, is restored however the block ends, and is seen by compiled code: a block around it
    compiles it anew, and a block inside it is traced. Made of a name it cannot stand inside compiled code; give a
    selector there. Raises `ConfigError` for a name that no backend has.
    """
    selector = Selector(backend=choice) if isinstance(choice, str) else choice
    before = _STACK.selectors
    _STACK.selectors = (*before, selector)
    try:
        yield selector
    finally:
        _STACK.selectors = before
