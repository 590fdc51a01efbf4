"""The tasks of a cutover, one module each."""
