"""May this code go on from what that code left? One module for each theme."""
