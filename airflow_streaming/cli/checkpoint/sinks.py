"""The logs of file sinks that a person named."""

from __future__ import annotations

from argparse import Namespace

from airflow_streaming.checkpoint.sources import SINK_LOG


def sink_logs(arguments: Namespace) -> dict[str, str] | None:
    """Return the log of each file sink that was named; ``None`` when none was."""
    named = {query: f"{uri.rstrip('/')}/{SINK_LOG}" for query, uri in arguments.sink}
    return named or None
