"""The conformance kit run on every backend that the rules let run on this machine, build by build."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from selector.configuring import choose
from selector.rules.conditions import ALWAYS, blame
from selector.rules.problems import Place, Problem, ProblemsError, listing, nearest, shown
from selector.rules.vocabulary import Value
from selector.selecting import Selector

if TYPE_CHECKING:
    from backends.conformance import Check, Outcome, Report, Result
    from backends.interface import Backend, Geometry
    from selector.decision import Decision
    from selector.ruleset import RuleSet

Load: TypeAlias = "Callable[[str], Backend]"
HEAD_DIMS = (64, 72, 128, 256)
HEADS = ((4, 4), (4, 2))
DTYPES = ("bfloat16", "float16")
OF_CPU = ("float32",)
"""What is looked at on a CPU besides, where half precision is seldom what runs."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be looked at: None and empty stand for all of it.

    `device` is ``cpu`` or ``cuda:N``, by default the first GPU that torch sees, or else the CPU.
    """

    backend: str | None = None
    provider: str | None = None
    head_dims: Sequence[int] = ()
    dtypes: Sequence[str] = ()
    checks: Sequence[str] = ()
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """One backend, or one build of it, and what became of each check in each geometry that the rules let it run."""

    backend: str
    provider: str | None
    results: tuple[Result, ...]
    counts: dict[Outcome, int]

    @property
    def good(self) -> bool:
        """Whether nothing failed, and something could be bound at all."""
        return not self.counts["failed"] and self.counts["cannot bind"] < len(self.results)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A backend, or a build of one, that the rules do not let run here, in the rules' own words."""

    backend: str
    provider: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Selftest:
    """What a machine's backends do, in the order of the rules."""

    device: str
    tested: tuple[Checked, ...]
    unusable: tuple[Unusable, ...]

    @property
    def good(self) -> bool:
        """Whether every backend that may run here does what it should, or says why not."""
        return all(one.good for one in self.tested)


def selftest(rules: RuleSet, asked: Asked) -> Selftest:
    """Run the checks on this machine. Raises `ProblemsError` for what there is not: a name, a device, torch itself."""
    device = _device(asked.device)
    _check_names(rules, asked)
    selector = on_device(rules, device)
    found = list(usable(selector, asked, device))
    tested = tuple(one for one in found if isinstance(one, Checked))
    return Selftest(device, tested, tuple(one for one in found if isinstance(one, Unusable)))


def usable(selector: Selector, asked: Asked, device: str, load: Load | None = None) -> Iterator[Checked | Unusable]:
    """Give each backend and build that was asked about, tested where the selector's rules let it run.

    `load` gives a backend by its name (default: `backends.registry.load`).
    """
    from backends import registry

    for name, backend in selector.rules.backends.items():
        if asked.backend is not None and name != selector.rules.named(asked.backend):
            continue
        if asked.provider is not None and asked.provider not in backend.providers:
            continue
        yield from _builds(selector, name, asked, device, load or registry.load)


def _builds(selector: Selector, name: str, asked: Asked, device: str, load: Load) -> Iterator[Checked | Unusable]:
    from backends.interface import BindError

    requests = list(_requests(asked, device))
    decisions = [_named(selector, name, request) for request in requests]
    stopped = [_stopped(decision, name) for decision in decisions]
    if all(stopped):
        yield Unusable(name, None, _nearest(stopped))
        return
    try:
        loaded = load(name)
    except BindError as error:
        yield Unusable(name, None, str(error))
        return
    for provider in selector.rules.backends[name].providers or (None,):
        if asked.provider not in (None, provider):
            continue
        able = [(one, request) for why, one, request in zip(stopped, decisions, requests, strict=True) if not why]
        unfit = [_unfit(selector.rules, provider, decision) for decision, _ in able]
        fitting = [request for why, (_, request) in zip(unfit, able, strict=True) if not why]
        if fitting:
            yield _tested(loaded, provider, fitting, asked, device)
        else:
            yield Unusable(name, provider, _nearest(unfit))


def _nearest(reasons: Sequence[str]) -> str:
    """Give the shortest: that of the geometry in whose way the least stands."""
    return min(reasons, key=len)


def _requests(asked: Asked, device: str) -> Iterator[dict[str, Value]]:
    dtypes = asked.dtypes or (DTYPES + OF_CPU if device == "cpu" else DTYPES)
    for dtype, head_dim, heads in itertools.product(dtypes, asked.head_dims or HEAD_DIMS, HEADS):
        yield {"head_dim": head_dim, "num_heads": heads[0], "num_kv_heads": heads[1], "dtype": dtype}


def _named(selector: Selector, name: str, request: dict[str, Value]) -> Decision:
    """Decide as if a user had named the backend, and nothing else."""
    _, choices = choose(None, name, {}, selector.rules)
    return replace(selector.serving, choices=choices, policy="fallback").decide(None, None, request)


def _stopped(decision: Decision, name: str) -> str:
    """Say why naming the backend does not run it; nothing where it does."""
    if decision.error is not None:
        return decision.error.message
    if decision.backend == name:
        return ""
    return next((text for text in decision.warnings if name in text), f"{decision.backend} takes its place")


def _unfit(rules: RuleSet, provider: str | None, decision: Decision) -> str:
    """Say why the build does not run what the backend may run; nothing where it does."""
    ability = rules.abilities["providers"].get(provider or "", ALWAYS)
    if ability.holds(decision.facts) is True:
        return ""
    reasons = dict.fromkeys(result.reason() for result in blame(ability, decision.facts, "ability"))
    return f"{provider} cannot run here ({'; '.join(reasons)})"


def _tested(
    backend: Backend, provider: str | None, requests: Sequence[dict[str, Value]], asked: Asked, device: str
) -> Checked:
    """Run each check once in each geometry, also where the check brings its own."""
    from backends.conformance import ALL, OUTCOMES, run

    done: set[tuple[str, Geometry]] = set()
    reports: list[Report] = []
    for request in requests:
        geometry = _geometry(request, device, provider)
        checks: list[Check] = []
        for check in ALL:
            key = (check.name, check.at(geometry))
            if (not asked.checks or check.name in asked.checks) and key not in done:
                checks.append(check)
                done.add(key)
        reports.append(run(backend, {}, geometry, checks=checks))
    counts = {outcome: sum(report.counts[outcome] for report in reports) for outcome in OUTCOMES}
    return Checked(backend.name, provider, tuple(result for report in reports for result in report.results), counts)


def _geometry(request: dict[str, Value], device: str, provider: str | None) -> Geometry:
    from backends.interface import Geometry

    head_dim, heads, kv_heads = (int(request[name] or 0) for name in ("head_dim", "num_heads", "num_kv_heads"))
    return Geometry(head_dim, heads, kv_heads, str(request["dtype"]), device, provider)


# --- what there is ------------------------------------------------------------------------------------------------


def _device(asked: str | None) -> str:
    """Give the device, which torch sees."""
    try:
        import torch
    except (ImportError, OSError) as error:
        message = f"computing attention needs torch, which cannot be imported ({error})"
        problem = Problem(Place("torch"), "no-torch", message, "pip install 'attention-selector[torch]'")
        raise ProblemsError([problem]) from error
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if asked is None:
        return gpus[0] if gpus else "cpu"
    device = "cuda:0" if asked == "cuda" else asked
    if device not in ("cpu", *gpus):
        message = (
            f"wanted a device that torch {torch.__version__} sees ({listing(['cpu', *gpus])}), got `{shown(asked)}`"
        )
        raise ProblemsError([Problem(Place("--device"), "no-device", message)])
    return device


def on_device(rules: RuleSet, device: str) -> Selector:
    """Give a selector for this machine as it is seen from the device, which takes nothing from the environment."""
    kind, _, number = device.partition(":")
    selector = Selector(rules=rules, device=int(number or 0), environment={})
    if kind != "cpu" or selector.machine.get("platform") == "cpu":
        return selector
    return selector.on({**selector.machine, "platform": "cpu", "arch": None, "cudnn": None})


def _check_names(rules: RuleSet, asked: Asked) -> None:
    """Raise `ProblemsError` for every name and value that there is not."""
    from backends.conformance import ALL

    backend = None if asked.backend is None else rules.named(asked.backend)
    providers = rules.providers if backend is None else rules.backends[backend].providers
    problems = [
        *_unknown("backend", [] if backend else [asked.backend], rules.backends),
        *_unknown("provider", [asked.provider], providers),
        *_unknown("check", asked.checks, [check.name for check in ALL]),
        *_misfits("head_dim", asked.head_dims, rules),
        *_misfits("dtype", asked.dtypes, rules),
    ]
    if problems:
        raise ProblemsError(problems)


def _unknown(what: str, names: Iterable[str | None], known: Iterable[str]) -> Iterator[Problem]:
    known = list(known)
    for name in names:
        if name is not None and name not in known:
            hint = nearest(name, known) or (f"known: {listing(known)}" if known else "it has one build alone")
            yield Problem(Place(f"--{what}"), f"unknown-{what}", f"no {what} `{shown(name)}`", hint)


def _misfits(name: str, values: Iterable[Value], rules: RuleSet) -> Iterator[Problem]:
    place = Place(f"--{name.replace('_', '-')}")
    for value in values:
        misfit = rules.vocabulary.facts[name].misfit(value)
        if misfit is not None:
            yield Problem(place, "bad-value", misfit.message, misfit.hint)
