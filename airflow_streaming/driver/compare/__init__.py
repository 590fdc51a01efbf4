"""The Spark of a comparison: reads two outputs and says by bucket and key where they differ."""
