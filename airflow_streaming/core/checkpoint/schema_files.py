"""
Schema files: where a checkpoint keeps the columns of its state.

An operator without state variables has one file for each store, in partition 0. One with state
variables (transformWithState) names its files itself, by absolute paths.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.checkpoint.state.stores import DEFAULT_STORE
from airflow_streaming.core.checkpoint.stateful import STATE, State

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/*(.*)", re.DOTALL)
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "local": "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """
    One schema file.

    :param path: Where it is in this checkpoint, ``None`` when it is not inside.
    :param named: The absolute path that the operator's metadata gives, if it does.
    :param is_foreign: The named path lies outside this checkpoint.
    :param is_comparable: Whether that could be told: the same store can have two names.
    """

    operator: int
    path: str | None
    named: str = ""
    is_foreign: bool = False
    is_comparable: bool = True


def schema_files(state: State, places: Sequence[str]) -> list[SchemaFile]:
    """
    Return the schema files that a checkpoint should have.

    :param places: URIs that all mean this checkpoint.
    """
    found = []
    for operator in state.operators:
        metadata = state.metadata.get(operator)
        if metadata is not None and metadata.version >= 2:
            paths = [path for store in metadata.stores for path in store.schema_paths]
            found += [_named(operator, path, places) for path in paths]
        else:
            names = sorted({ref.name for ref in state.of(operator)})
            found += [SchemaFile(operator=operator, path=_own(operator, name)) for name in names]
    return found


def _own(operator: int, store: str) -> str:
    inner = "" if store == DEFAULT_STORE else f"/{store}"
    return f"{STATE}/{operator}/0{inner}/_metadata/schema"


def _named(operator: int, named: str, places: Sequence[str]) -> SchemaFile:
    scheme, path = _place(named)
    for place in places:
        own_scheme, own_path = _place(place)
        if scheme == own_scheme and path.startswith(f"{own_path}/"):
            inner = path.removeprefix(f"{own_path}/")
            return SchemaFile(operator=operator, path=inner, named=named)
    is_comparable = any(_place(place)[0] == scheme for place in places)
    marker = f"/{STATE}/{operator}/"
    inner = path.rpartition(marker)[2] if marker in path else ""
    return SchemaFile(
        operator=operator,
        path=f"{STATE}/{operator}/{inner}" if inner else None,
        named=named,
        is_foreign=True,
        is_comparable=is_comparable,
    )


def _place(uri: str) -> tuple[str, str]:
    match = _URI.fullmatch(uri)
    if match is None:
        return "file", uri.strip("/")
    scheme = match[1].lower()
    return _SAME.get(scheme, scheme), match[2].strip("/")
