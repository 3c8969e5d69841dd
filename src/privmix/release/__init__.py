"""Releases: from records to a folder to publish, and a spending account of all releases."""
