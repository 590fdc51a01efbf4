"""The tasks of an upgrade in place, one module each."""
