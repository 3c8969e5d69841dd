"""Gaussian mixtures and their fitting. Knows nothing of privacy."""
