"""What the next move of a cutover is: one pure decision over all that was seen."""
