"""Releases: from records to a folder that may be published, and an account of what all releases have cost."""
