"""A name for what diffusers has no types for."""

from typing import Any, TypeAlias

Untyped: TypeAlias = Any
"""A pipeline, model, module, processor or enum member of diffusers, or what a hook of torch is given."""
