"""
The version matrix: which Spark continues the checkpoint of which other, tried for every pair.

``python -m benchmarks.version_matrix --runtimes '{"3.5": "/venvs/spark-3.5", ...}'`` runs it; what
was measured already is not measured again, so that it can be stopped at any time.
"""
