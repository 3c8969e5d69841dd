"""Readers of raw files: one module per format, and `base` with what they share."""
