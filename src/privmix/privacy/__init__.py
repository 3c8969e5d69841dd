"""Privacy: sensitivity, noise, the ledger of all measurements, and the accounting that turns it into (ε, δ)."""
