"""
The leftovers of a first batch whose driver died, moved aside so that Spark begins again.

From 4.1 on Spark starts batch 0 only where ``offsets``, ``commits`` and ``state`` hold no file, temporary files
included (``MicroBatchExecution.verifyNewCheckpointDirectory``; measured with 4.3). Two deaths leave such files:
while the first plan is written, and, where Spark drops plans without a commit (real-time mode, asynchronous
progress tracking), at any moment before the first commit. Without help every later start fails.

Nothing is deleted, and the logs of the sources stay, so the query reads from the same first position.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from airflow_streaming.driver.checkpoint.checkpoint_claims import batches_reached, query_id_in
from airflow_streaming.driver.errors import logger
from airflow_streaming.model.plan.real_time import is_real_time
from airflow_streaming.model.storage import Store

LOGS: Final = ("offsets", "commits")
STATE: Final = "state"
ASIDE: Final = ".first-batch-"
"""Beginning of the hidden folder in the checkpoint that takes the leftovers."""
FIRST_VERSION: Final = 1
"""The version of state that batch 0 writes."""
_VERSION: Final = re.compile(r"(\d+)[._]")
_NO_FOLDER: Final = ("_", "SSTs")
"""Beginnings of names below ``state`` that hold no version."""
_DEEPEST: Final = 4
_ASYNC: Final = "asyncprogresstrackingenabled"


def drops_plans(trigger: str, options: Mapping[str, str]) -> bool:
    """Tell whether Spark drops a plan without a commit when a query of this trigger and these options starts."""
    chosen = {key.lower(): str(value).strip().lower() for key, value in options.items()}
    return is_real_time(trigger) or chosen.get(_ASYNC) == "true"


class MovableStore(Store, Protocol):
    """A checkpoint whose folders can be renamed."""

    def move(self, folder: str, target: str) -> bool:
        """Rename a folder; return ``False`` where it is missing or holds nothing, hidden files included."""


def put_first_batch_aside(query: str, checkpoint: MovableStore, *, drops_plans: bool) -> list[str]:
    """
    Move the leftovers of a first batch aside; return the moved folders.

    The drivers before this one must be gone.

    :param drops_plans: Spark drops a plan without a commit: real-time mode, asynchronous progress tracking.
    """
    if query_id_in(checkpoint) is None:
        return []
    folders = leftovers(checkpoint, drops_plans=drops_plans)
    aside = f"{ASIDE}{uuid.uuid4().hex[:8]}"
    moved = [one for one in folders if checkpoint.move(one, f"{aside}/{one}")]
    if moved:
        logger.warning(
            "A driver of query %r died in its first batch. Spark would refuse the folders %s of its checkpoint, so they "
            "were moved to %s/%s. The query begins with its first batch again.",
            query,
            ", ".join(moved),
            checkpoint.uri,
            aside,
        )
    return moved


def leftovers(checkpoint: Store, *, drops_plans: bool) -> tuple[str, ...]:
    """Return the folders that may hold leftovers; none once a batch was committed, or more than one was begun."""
    reached = batches_reached(checkpoint)
    if reached.committed is not None:
        return ()
    if not drops_plans:
        # A plan is run again. Without one nothing but a temporary file can be in the way.
        return LOGS if reached.planned is None else ()
    is_first = reached.planned in (None, 0) and all(
        version <= FIRST_VERSION for version in _versions(_files(checkpoint, STATE, _DEEPEST))
    )
    # Later state without a commit means lost logs: the checkpoint is damaged and stays as it is.
    return (*LOGS, STATE) if is_first else ()


def _files(checkpoint: Store, folder: str, depth: int) -> Iterator[str]:
    for name in checkpoint.names(folder):
        if _VERSION.match(name):
            yield name
        elif depth and not name.startswith(_NO_FOLDER):
            yield from _files(checkpoint, f"{folder}/{name}", depth - 1)


def _versions(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        if found := _VERSION.match(name):
            yield int(found[1])
