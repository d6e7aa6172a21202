"""What is wrong with a command line, and the flags whose names go on as a path into the config."""

from __future__ import annotations

from collections.abc import Sequence

CONFIG_FLAG = "--diffusion-attention-config"


class UsageError(ValueError):
    """A command line that cannot be understood."""


def take_dotted(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Part ``--diffusion-attention-config.path value`` and ``…=value`` from the other arguments, each in its order.

    Raises `UsageError` where the last of them has no value.
    """
    plain: list[str] = []
    dotted: list[tuple[str, str]] = []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith(f"{CONFIG_FLAG}."):
            plain.append(argument)
            continue
        name, sign, value = argument.removeprefix(f"{CONFIG_FLAG}.").partition("=")
        if not sign:
            following = next(rest, None)
            if following is None:
                raise UsageError(f"argument {argument}: expected one argument")
            value = following
        dotted.append((name, value))
    return plain, dotted
