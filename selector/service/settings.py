"""What a service is started with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

MOST_REQUESTS = 10_000
"""How many requests one call may ask about."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules, the limits, and who may do what.

    `folders` are laid over the shipped rules, and watched where `watch` says so. `token` opens the one endpoint that
    changes something; without one it is closed. `hosts` are the names by which the service may be called. `log` is
    where decisions are written. `most_body` is in bytes, `most_seconds` how long a body may take to arrive,
    `most_connections` how many requests are answered at a time.
    """

    folders: tuple[str, ...] = ()
    watch: bool = True
    token: str | None = None
    log: str | None = None
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    most_body: int = 8_000_000
    most_seconds: float = 10.0
    most_connections: int = 256

    def __repr__(self) -> str:
        """Say all but the token."""
        told = {**asdict(self), "token": None if self.token is None else "set"}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def to_json(self) -> str:
        """Write them for a worker process, but for the token, which it has from the environment."""
        return json.dumps({**asdict(self), "token": None})

    @classmethod
    def from_json(cls, text: str, token: str | None) -> Self:
        """Read what `to_json` wrote."""
        found = json.loads(text)
        lists = {name: tuple(found[name]) for name in ("folders", "hosts")}
        return cls(**{**found, **lists, "token": token})
