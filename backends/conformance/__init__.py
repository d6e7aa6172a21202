"""A public conformance kit: small calls that show whether a kernel does what the interface promises.

`run` runs it and gives a report, `as_pytest` makes a test case of each check. The oracle is `backends.reference`.
"""

from backends.conformance.calls import Call, Draw
from backends.conformance.checking import FULL, TOLERANCES, Check
from backends.conformance.pytest_cases import as_pytest
from backends.conformance.running import ALL, OUTCOMES, Outcome, Report, Result, run

__all__ = [
    "ALL",
    "FULL",
    "OUTCOMES",
    "TOLERANCES",
    "Call",
    "Check",
    "Draw",
    "Outcome",
    "Report",
    "Result",
    "as_pytest",
    "run",
]
