"""diffusers: `apply` gives every module of attention of a pipeline the backend of its role."""

from selector.integrations.diffusers.applying import apply
from selector.integrations.diffusers.report import ApplyError, Report, Row, Untouched
from selector.integrations.diffusers.versions import UnsupportedDiffusersError

__all__ = ["ApplyError", "Report", "Row", "UnsupportedDiffusersError", "Untouched", "apply"]
