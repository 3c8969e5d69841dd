"""Privmix: which private mechanism, at which epsilon, at what cost, and what an attacker still learns."""
