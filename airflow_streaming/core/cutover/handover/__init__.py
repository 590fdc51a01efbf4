"""Positions of two checkpoints, and the batch that leads from one to the other's."""
