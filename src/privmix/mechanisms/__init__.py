"""Private mechanisms: one module each, where noise and mixtures meet."""
