"""The cutover over real homes, drivers, checkpoints and outputs."""
