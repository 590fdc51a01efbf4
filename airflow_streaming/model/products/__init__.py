"""Values and records of data products: complete windows, and freshness objectives."""
