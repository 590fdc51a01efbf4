"""The rehearsal: what is asked of it, what it tells, and what that means."""
