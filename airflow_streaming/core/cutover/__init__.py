"""Blue-green: the cutover from one lane of a stream to the other, as values and decisions."""
