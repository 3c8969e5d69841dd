"""The files between stages, one module per kind of file: a stage depends only on the kinds that it reads or writes."""
