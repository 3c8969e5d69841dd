"""What a fitted model is worth, and what an attacker learns from it."""
