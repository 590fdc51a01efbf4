"""What two outputs have in common, and where they differ."""
