"""What `apply` did: role → modules → backend → reason; whether it holds; and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from selector.integrations.diffusers import registry
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from selector.decision import Decision
    from selector.dispatch.layer import Ran
    from selector.integrations.diffusers.kernels import Dispatcher
    from selector.integrations.diffusers.watching import Watch


class ApplyError(RuntimeError):
    """A choice that does not hold in a model; `problems` has every reason, one sentence each."""

    def __init__(self, problems: Iterable[str]) -> None:
        """Keep the sentences, and tell them all."""
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the problems be what is pickled."""
        return type(self), (self.problems,)


@dataclass(frozen=True, slots=True)
class Untouched:
    """A module of attention that was left as it is, and why."""

    module: str
    role: str
    because: str


@dataclass(frozen=True, slots=True)
class Row:
    """The modules of one role and size in one component: what was decided for them."""

    role: str
    component: str
    modules: tuple[str, ...]
    decision: Decision
    dispatcher: Dispatcher = field(repr=False)
    member: Untyped = field(repr=False)

    @property
    def backend(self) -> str:
        """The backend that was decided."""
        return str(self.decision.backend)

    @property
    def because(self) -> str:
        """The row of the rules that decided, and what it logs."""
        return f"{self.decision.rule}: {self.decision.log}"

    @property
    def ran(self) -> tuple[Ran, ...]:
        """What ran so far, by signature of call."""
        return self.dispatcher.report()

    def __str__(self) -> str:
        count = f"{len(self.modules)} module" + ("" if len(self.modules) == 1 else "s")
        named = self.modules[0] if len(self.modules) == 1 else f"{self.modules[0]} … {self.modules[-1]}"
        return f"{self.role} → {count} of {self.component} ({named}) → {self.backend} – {self.because}"


@dataclass(frozen=True, slots=True)
class Installed:
    """What was put into a module, and how it is taken out again; `holds` says what is wrong with it, if anything."""

    place: str
    holds: Callable[[], str | None]
    restore: Callable[[], object]


@dataclass(eq=False)
class Report:
    """What was applied. As a context manager it checks at its end that the choice held, and takes it back."""

    rows: tuple[Row, ...]
    untouched: tuple[Untouched, ...] = ()
    foreign: tuple[str, ...] = ()
    """What other projects have changed in diffusers' dispatch; nothing of it was overwritten."""
    installed: list[Installed] = field(default_factory=list, repr=False)
    watches: dict[str, Watch] = field(default_factory=dict, repr=False)
    undone: bool = False

    def __str__(self) -> str:
        return "\n".join(
            [
                *map(str, self.rows),
                *(f"{one.role} → {one.module} left alone: {one.because}" for one in self.untouched),
                *(f"other patch: {one}" for one in self.foreign),
            ]
        )

    def verify(self) -> Report:
        """Check, after a forward, that every module ran what was decided for its role, and give the report.

        Raises `ApplyError` with every reason: no forward ran; a module bypasses the dispatcher; its processor or
        backend was replaced since; a configured role ran another backend.
        """
        problems = list(self._problems())
        if problems:
            raise ApplyError(problems)
        return self

    def _problems(self) -> Iterator[str]:
        if self.undone:
            yield "wanted an applied choice, got one that was undone"
            return
        yield from (f"`{one.place}`: {wrong}" for one in self.installed if (wrong := one.holds()) is not None)
        for row in self.rows:
            yield from _problems_of(row, self.watches[row.component])

    def undo(self) -> None:
        """Put back every processor, hook and registered name; what others replaced since stays theirs."""
        if self.undone:
            return
        self.undone = True
        for watch in self.watches.values():
            watch.end()
        for one in reversed(self.installed):
            one.restore()
        for row in self.rows:
            registry.unregister(row.member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the choice back; first check it, if a forward ran and nothing else is wrong."""
        try:
            if kind is None and any(row.ran or self.watches[row.component].forwards for row in self.rows):
                self.verify()
        finally:
            self.undo()


def _problems_of(row: Row, watch: Watch) -> Iterator[str]:
    ran = row.ran
    if row.dispatcher.uncounted and not ran:
        return
    if not ran and not watch.forwards:
        yield f"role `{row.role}` of `{row.component}`: wanted a forward before the check, got none"
    elif not ran:
        yield f"role `{row.role}` of `{row.component}`: no call reached the dispatcher from {', '.join(row.modules)}"
    elif all(one.calls for one in ran):  # what is compiled nobody counts
        for place in sorted(watch.bypassing.intersection(row.modules)):
            yield f"`{place}`: its attention bypasses the dispatcher"
    if row.decision.source != "platform":
        for one in ran:
            if one.backend != row.backend:
                yield (
                    f"role `{row.role}` of `{row.component}`: wanted {row.backend}, {one.backend} ran"
                    f" ({one.rule}; {'; '.join(one.warnings) or 'no warning'})"
                )
