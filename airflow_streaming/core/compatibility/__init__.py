"""May this code, on this Spark, go on from that checkpoint? Rules as data, evidence in each answer."""
