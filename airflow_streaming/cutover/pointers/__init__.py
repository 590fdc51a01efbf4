"""Pointers: what consumers follow beside the home's own pointer, moved at the switch."""
