"""Publishing: from records to a folder that may be handed over, and an account of what that has cost so far."""
