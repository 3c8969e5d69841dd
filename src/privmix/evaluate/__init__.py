"""How good a fitted model is."""
