"""Local mechanisms: each record is randomised before anyone stores it, one module per method."""
