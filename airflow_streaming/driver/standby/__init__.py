"""A driver that starts Spark and runs the script up to its first query, and then waits for word."""
