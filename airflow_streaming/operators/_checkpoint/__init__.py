"""The operators on checkpoints, one module each."""
