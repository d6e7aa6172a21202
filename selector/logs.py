"""The log lines, through structlog: each distinct decision once, not once per layer."""

from __future__ import annotations

import threading
from collections import OrderedDict

import structlog

from selector.decision import Decision
from selector.reloading import Reload

_MOST_REMEMBERED = 4096
_seen: OrderedDict[tuple[object, ...], None] = OrderedDict()
_lock = threading.Lock()


def announce(decision: Decision) -> None:
    """Write the decision's line and its warnings, unless an equal decision was announced before.

    The last few thousand distinct decisions are remembered; one that was forgotten is written again, never left out.
    """
    if decision.error is not None or not _is_new(decision):
        return
    log = structlog.get_logger("attention_selector")
    log.info(decision.log, role=decision.role, source=decision.source, origin=decision.origin, rule=decision.rule)
    for warning in decision.warnings:
        log.warning(warning, role=decision.role, backend=decision.backend)


def _is_new(decision: Decision) -> bool:
    key = (decision.log, decision.rule, decision.source, decision.provider, decision.warnings, decision.digest)
    with _lock:
        if key in _seen:
            _seen.move_to_end(key)
            return False
        _seen[key] = None
        if len(_seen) > _MOST_REMEMBERED:
            _seen.popitem(last=False)
        return True


def announce_reload(reload: Reload) -> None:
    """Write what came of newer rules: a warning where they are refused, with each problem."""
    log = structlog.get_logger("attention_selector")
    line, *rest = str(reload).split("\n")
    if reload.outcome != "refused":
        log.info(line, digest=reload.digest)
        return
    log.warning(line, digest=reload.digest, problems=rest)


def forget() -> None:
    """Forget what was announced, so that the next decision is announced again."""
    with _lock:
        _seen.clear()
