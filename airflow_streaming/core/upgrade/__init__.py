"""The upgrade in place: its steps, the soak that judges it, and the way back."""
