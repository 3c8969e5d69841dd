"""The data catalog: what a dataset is, where it comes from, and what about it is public."""
