"""A decide line answered from the text of the contract alone: plain conditions, no rule tables, nothing of the product.

The numbers in the docstrings are the contract's paragraphs, and `Reading:` marks where its text leaves a choice. Slow
and obvious on purpose: it is what the product is held against. Lines without `facts` are not for it, since they ask for
the machine's own.
"""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.calls import Verdict, mask_refused, verdict
from tests.oracle.choices import Choice, RefusedError
from tests.oracle.configuration import Config, Entry, exclusive, read_config, read_policy
from tests.oracle.defaults import platform_default
from tests.oracle.explicit import named
from tests.oracle.layers import Call, Request, read_request
from tests.oracle.machines import Machine, blackwell, read_machine
from tests.oracle.words import InvalidError, Json


def decide(line: Json) -> dict[str, Json]:
    """Paragraph 8: the answer to one decide line; codes in paragraph 5's order.

    Gives `backend`, `source`, `origin`, `log`, `warnings` (a list of words) and `error` (the code, or None). Of an
    invalid line `source` and `origin` are None; of a refused one they stand.
    """
    if isinstance(line, dict) and exclusive(line):
        return _answer(error="mutually_exclusive")
    try:
        strict = read_policy(line) == "strict"
        config = read_config(line)
        machine = read_machine(line.get("facts"))
        request = read_request(line.get("request"))
    except InvalidError:
        return _answer(error="invalid")
    entry, source, origin = role_fallback(config, request)
    try:
        choice = defaulted(machine, request) if entry is None else configured(entry, machine, request, strict=strict)
    except RefusedError:
        return _answer(source=source, origin=origin, error="refused")
    return _answer(
        backend=choice.backend,
        source=source,
        origin=origin,
        log=log_line(choice, explicit=entry is not None),
        warnings=[*general_warnings(machine, request), *choice.warnings],
    )


def _answer(**given: Json) -> dict[str, Json]:
    nothing: dict[str, Json] = {
        "backend": None,
        "source": None,
        "origin": None,
        "log": None,
        "warnings": [],
        "error": None,
    }
    return nothing | given


def role_fallback(config: Config, request: Request) -> tuple[Entry | None, str, str]:
    """Paragraph 1, `role_fallback`: exact role, role category, `default`, platform."""
    if request.role in config.per_role:
        return config.per_role[request.role], "role", "config"
    if request.category in config.per_role:
        return config.per_role[request.category], "category", "config"
    if config.default is not None:
        return config.default, "default", config.default_origin
    return None, "platform", "platform"


def defaulted(machine: Machine, request: Request) -> Choice:
    """Paragraphs 3 and 7: the platform's default, and what a call makes of it."""
    choice = platform_default(machine, request)
    call = request.call
    if call is None:
        return choice
    if choice.backend == "TRTLLM_ATTN" and verdict(choice.backend, request, call) is Verdict.REFUSED:
        wrong = ("the model's declaration is wrong",) if mask_refused(call) else ()
        choice = platform_default(machine, replace(request, mask_free=False))
        choice = replace(choice, warnings=(*choice.warnings, *wrong))
    return met(choice, request, call)


def configured(entry: Entry, machine: Machine, request: Request, *, strict: bool) -> Choice:
    """Paragraphs 4 and 7: a named backend, its substitutes one after the other, and what a call makes of the last."""
    choice = named(entry, machine, request)
    substituted = choice.backend != entry.backend or any("instead of" in warning for warning in choice.warnings)
    if strict and substituted:
        raise RefusedError(entry.backend)
    if request.call is None:
        return choice
    met_by = met(choice, request, request.call)
    if strict and met_by.backend != choice.backend:
        raise RefusedError(choice.backend)
    return met_by


def met(choice: Choice, request: Request, call: Call) -> Choice:
    """Paragraph 7: refused, taken by `TORCH_SDPA` with a warning, or run."""
    found = verdict(choice.backend, request, call)
    if found is Verdict.REFUSED:
        raise RefusedError(choice.backend)
    if found is Verdict.SUBSTITUTED:
        return Choice("TORCH_SDPA", warnings=(*choice.warnings, "TORCH_SDPA takes the call"))
    return choice


def general_warnings(machine: Machine, request: Request) -> list[str]:
    """Paragraph 3: an untested variant of GPU; paragraph 2: an unknown model. Both for every decision."""
    warnings = []
    if blackwell(machine) and machine.sm not in {(10, 0), (10, 3), (12, 0), (12, 1)}:
        warnings.append("untested variant")
    if request.unknown_model:
        warnings.append("unknown model")
    return warnings


def log_line(choice: Choice, *, explicit: bool) -> str:
    """Paragraph 6: the log line, exactly."""
    if explicit:
        return f"Using diffusion attention backend '{choice.backend}'"
    name = "SDPA" if choice.backend == "TORCH_SDPA" else choice.backend
    return f"Defaulting to diffusion attention backend {name}{choice.brackets}"
