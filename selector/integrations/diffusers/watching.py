"""Looks, during the first forward, whether each module of attention reaches the dispatcher of its role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selector.integrations.diffusers.kernels import Dispatcher
    from selector.integrations.diffusers.modules import Found


@dataclass(eq=False)
class Watch:
    """What was seen of one component: how many forwards ran, and which modules attended by another way.

    The modules are watched until one forward has run that is not compiled; compiled code is not watched.
    """

    forwards: int = 0
    bypassing: set[str] = field(default_factory=set)
    _handles: list[Any] = field(default_factory=list)
    _modules: list[Any] = field(default_factory=list)
    _entered: bool = False

    def begin(self, component: Untyped, modules: Iterable[tuple[Found, Dispatcher]]) -> None:
        """Hook a component and its modules."""
        self._handles.append(component.register_forward_hook(self._ran))
        for found, dispatcher in modules:
            one = _Module(self, found.place, dispatcher)
            self._modules.append(found.module.register_forward_pre_hook(one.before))
            self._modules.append(found.module.register_forward_hook(one.after))

    def end(self) -> None:
        """Unhook everything."""
        for handle in (*self._handles, *self._modules):
            handle.remove()
        self._handles.clear()
        self._modules.clear()

    def entered(self) -> None:
        """Take note that a module of attention was called."""
        self._entered = True

    def _ran(self, module: Untyped, args: Untyped, output: Untyped) -> None:  # noqa: ARG002 - torch's hook  # noqa: ANN401, ARG002 - torch's hook
        if torch.compiler.is_compiling():
            return
        self.forwards += 1
        if self._entered:
            for handle in self._modules:
                handle.remove()
            self._modules.clear()


@dataclass(eq=False)
class _Module:
    watch: Watch
    place: str
    dispatcher: Dispatcher
    calls: int = 0

    def before(self, module: Untyped, args: Untyped) -> None:  # noqa: ARG002 - torch's hook  # noqa: ANN401, ARG002 - torch's hook
        if not torch.compiler.is_compiling():
            self.calls = self.dispatcher.calls
            self.watch.entered()

    def after(self, module: Untyped, args: Untyped, output: Untyped) -> None:  # noqa: ARG002 - torch's hook  # noqa: ANN401, ARG002 - torch's hook
        if not torch.compiler.is_compiling() and self.dispatcher.calls == self.calls:
            self.watch.bypassing.add(self.place)
