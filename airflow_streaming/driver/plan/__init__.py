"""Reading the analysed plan of a query: what it reads, keeps and writes."""
