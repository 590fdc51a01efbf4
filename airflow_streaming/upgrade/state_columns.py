"""State columns: reads the schema files of a checkpoint's state; a few small files, no walk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from airflow_streaming.checkpoint.folders import Folders
from airflow_streaming.core.checkpoint.report import Checkpoint, Operator
from airflow_streaming.core.checkpoint.schemas import MAX_SCHEMA_BYTES, parse_state_schema
from airflow_streaming.core.compatibility.stored import DEFAULT_STORE, StoreSchema, store_schemas
from airflow_streaming.exceptions import RecordError

_NAMED: Final = re.compile(r"(0|[1-9][0-9]{0,17})_[A-Za-z0-9-]{1,100}")
_OWN_FILES: Final = 3
"""From this version on a schema file is named by its operator, and lies in a folder of its own."""


def read_state_columns(folders: Folders, checkpoint: Checkpoint) -> list[StoreSchema]:
    """
    Return the columns of every store that can be read.

    A file that is missing or broken is left out; the rules take what they do not see for unknown.

    :raises HomeUnavailable: the store cannot be reached.
    """
    found: list[StoreSchema] = []
    for operator in checkpoint.operators:
        for store, path in _files(folders, operator):
            try:
                data = folders.read(path, MAX_SCHEMA_BYTES)
                schema = parse_state_schema(data) if data is not None else None
            except RecordError:
                continue
            if schema is not None:
                found += store_schemas(schema, operator=operator.id, path=path, store=store)
    return found


def _files(folders: Folders, operator: Operator) -> Iterator[tuple[str, str]]:
    names = [store.name for store in operator.stores] or [DEFAULT_STORE]
    if operator.schema_version is not None and operator.schema_version >= _OWN_FILES:
        for name in dict.fromkeys([*names, DEFAULT_STORE]):
            newest = _newest(folders, f"state/{operator.id}/_stateSchema/{name}")
            if newest:
                yield name, newest
        return
    for name in names:
        inner = "" if name == DEFAULT_STORE else f"/{name}"
        yield name, f"state/{operator.id}/0{inner}/_metadata/schema"


def _newest(folders: Folders, folder: str) -> str:
    entries = folders.entries(folder, list) or []
    batches = {match[0]: int(match[1]) for e in entries if (match := _NAMED.fullmatch(e.name))}
    return f"{folder}/{max(batches, key=batches.__getitem__)}" if batches else ""
