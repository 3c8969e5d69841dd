"""Audits of a claimed ε: replay recorded runs with one unit changed, and play a game between two worlds."""
