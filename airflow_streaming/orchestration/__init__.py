"""Task groups and whole dags: the operators strung together as most streams need them."""
