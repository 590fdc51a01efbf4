"""The operators that ask a gate, one module each."""
