"""Copies of a checkpoint: all of it, or how far its sources were read."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from airflow_streaming.checkpoint.clone import Cloned, carry_over, clone
from airflow_streaming.cli.checkpoint import backups
from airflow_streaming.cli.checkpoint.printing import print_json, print_lines
from airflow_streaming.cli.checkpoint.told import Told
from airflow_streaming.cli.person import OK, Person
from airflow_streaming.core.codec import encode


def copy_whole(arguments: Namespace, _: Person | None) -> int:
    """Clone a checkpoint."""
    return _show_copy(
        arguments,
        clone(arguments.uri, arguments.to, keep_query_id=arguments.keep_query_id, progress=Told()),
    )


def copy_position(arguments: Namespace, _: Person | None) -> int:
    """Make a checkpoint that knows nothing but the position of another one."""
    return _show_copy(
        arguments,
        carry_over(
            arguments.uri,
            arguments.to,
            sources=_sources(arguments.source),
            stateless=arguments.stateless,
            progress=Told(),
        ),
    )


def _sources(named: Sequence[str] | None) -> list[str | None] | None:
    return None if named is None else [None if name == "new" else name for name in named]


def _show_copy(arguments: Namespace, copied: Cloned) -> int:
    if arguments.json:
        print_json({**encode(copied), "checkpoint": copied.checkpoint.to_dict()})
    else:
        print_lines(backups.copied(copied))
    return OK
