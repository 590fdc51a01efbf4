"""Upgrades: gates over real checkpoints and scripts, rehearsals, and the upgrade in place."""
