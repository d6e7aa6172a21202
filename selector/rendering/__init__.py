"""Decisions for people: a tree for the terminal, a Mermaid chart, and why a backend was not chosen."""
