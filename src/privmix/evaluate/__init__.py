"""Evaluation: how well a fitted model describes records."""
