"""The files between stages, a module each, so that only those who read a file depend on what it holds."""
