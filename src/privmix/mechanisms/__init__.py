"""Private mechanisms: one module per method. Noise and mixtures meet here."""
