"""The version gate: whether another Spark reads a checkpoint, and whether one can come back."""
