"""Readers of raw files: one module per format, and `base` with their shared parts."""
