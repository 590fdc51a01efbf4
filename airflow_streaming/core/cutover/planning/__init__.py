"""What is asked of a cutover before it begins and before it switches, and the pages for it."""
