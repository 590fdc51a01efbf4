"""What green has shown, and what it lacks: three-valued."""
