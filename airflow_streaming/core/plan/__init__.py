"""What a query is, taken from its analysed plan: the fingerprint that the change gate compares."""
