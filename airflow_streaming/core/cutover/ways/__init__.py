"""Which way to switch is sound for which sinks, sources and states."""
