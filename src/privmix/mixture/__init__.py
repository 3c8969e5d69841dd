"""Gaussian mixtures and how to fit them. This package knows nothing of privacy."""
