"""Scenarios: situations with what must come out, run against rules, and how much of the rules they show."""
