"""Noise, the ledger that records it, and the accounting that turns the ledger into (epsilon, delta)."""
