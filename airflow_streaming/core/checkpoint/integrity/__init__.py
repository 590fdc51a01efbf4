"""
What can be wrong with a checkpoint, a module for each part of it.

The sentences on what Spark does with a defect were measured: each defect was made in a real
checkpoint and the query was started on it (3.5 to 4.3). ``docs/checkpoints.md`` has the table.
"""
