"""
``airflow-streaming checkpoint``: what each verb does.

Every verb prints text for people, or with ``--json`` one JSON object; progress goes to the error
output. The exit code is 0 when all is right, 1 when anything is wrong with a checkpoint or a backup
or an act was refused, 2 for wrong use.
"""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from typing import Final

from airflow_streaming.cli.person import Person


def run(arguments: Namespace, person: Person | None) -> int:
    """
    Run one verb that needs no home.

    :param person: Who acts; ``None`` for a verb that only looks.
    """
    # A verb loads its own part: a small backup takes little longer than loading all of them would.
    module, act = _VERBS[arguments.verb]
    found = import_module(f"airflow_streaming.cli.checkpoint.{module}")
    return int(getattr(found, act)(arguments, person))


_VERBS: Final = {
    "inspect": ("inspecting", "inspect"),
    "backup": ("backing_up", "backup"),
    "list": ("backing_up", "list_backups"),
    "verify": ("verifying", "verify_backup"),
    "restore": ("restoring", "restore_backup"),
    "clone": ("copying", "copy_whole"),
    "carry-over": ("copying", "copy_position"),
    "retain": ("retaining", "retain"),
}
