"""Old things go: what of a stream's records, checkpoints and outputs nothing needs any more."""
