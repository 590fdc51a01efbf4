"""The driver of a rehearsal: new code on a clone, its output counted and sampled."""
