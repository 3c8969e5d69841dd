"""Gaussian mixtures and how to fit them. This package adds no noise and knows nothing about privacy."""
