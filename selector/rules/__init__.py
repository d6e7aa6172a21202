"""The rule language: words, conditions, tables and their evaluation. It knows nothing of attention."""
