"""Reasoning about rules over every situation there is, and not over a sample of them."""
