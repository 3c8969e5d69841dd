"""Attacks: what an attacker learns from a released model."""
