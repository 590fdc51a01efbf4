"""The driver that moves a pointer in a catalog: a short Spark application of its own."""
