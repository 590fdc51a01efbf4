"""The driver of a drill, and what it shares with a rehearsal: the user's script on scratch copies."""
