"""Where a stream's checkpoints lie, and where restored ones are put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.preparing import Place
from airflow_streaming.checkpoint.reader import Reader, query_folders
from airflow_streaming.core.checkpoint.backup import Backup
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.names import numbered
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import RestoreRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.switching import location


def beside(home: StreamHome, current: Deployment, change: int) -> str:
    """
    Return where a change puts its checkpoints: beside the present ones, under its own number.

    No deployment is ever given such a place by itself, and no two changes have the same.
    """
    parent = current.checkpoint.rpartition("/")[0]
    own = join(home.store.uri, home.name, "checkpoints")
    name = f"restored-{numbered(change)}"
    return join(own, name) if parent == own else f"{current.checkpoint}.{name}"


def place_of(
    backup: Backup,
    known: Circumstances,
    current: Deployment,
    to: str,
    sink_logs: Mapping[str, str] | None,
    storage_options: Mapping[str, Any] | None,
) -> Place:
    """
    Return where the queries of a backup go, and which checkpoints they replace.

    :raises RestoreRefused: a backup of a single checkpoint, and several queries that it may be of.
    """
    folders = _folders(backup, known)
    return Place(
        to=to,
        storage_options=storage_options,
        folders=folders,
        current={name: join(current.checkpoint, folder) for name, folder in folders.items()},
        sink_logs=sink_logs,
    )


def _folders(backup: Backup, known: Circumstances) -> dict[str, str]:
    names = [query.folder for query in backup.queries]
    if names != [""]:
        return {name: name for name in names}
    if len(known.claims) != 1:
        raise RestoreRefused(
            f"Backup {backup.id} is of one checkpoint without a query's name, and stream "
            f"{known.stream!r} has {len(known.claims)} queries. Restore it to a place of its own."
        )
    return {"": next(iter(known.claims))}


def with_claims(known: Circumstances, home: StreamHome, current: Deployment) -> Circumstances:
    """
    Add what the home says of the queries that run on the present checkpoints.

    :raises RecordError: a claim cannot be read.
    """
    claims: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    below = location(current.checkpoint) + "/"
    for claim in _claims(home, current):
        if claim.checkpoint.startswith(below):
            claims[claim.checkpoint.removeprefix(below)] = claim.query_id
            elsewhere.pop(claim.query, None)
        else:
            elsewhere[claim.query] = claim.checkpoint
    newest = (home.claim_of(query_id) for query_id in claims.values())
    return replace(
        known,
        claims=claims,
        own_locations=elsewhere,
        runtime=current.spark_version,
        counts_from={
            claim.query_id: claim.counts_from
            for claim in newest
            if claim is not None and claim.counts_from is not None
        },
    )


def checkpoints_at(
    uri: str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, str | None]:
    """
    Return the id of the query in each folder of a stream's checkpoints.

    :raises RestoreRefused: one of them is not sound.
    :raises CheckpointError: there is none.
    """
    folders = open_folders(uri, storage_options)
    found: dict[str, str | None] = {}
    for name in query_folders(folders):
        report = Reader(folders.below(name)).inspect()
        if report.problems:
            raise RestoreRefused(
                f"{report.uri} is not sound: {report.problems[0].message} Nothing was changed."
            )
        found[name] = report.query_id
    return found


def _claims(home: StreamHome, current: Deployment) -> Iterator[QueryClaim]:
    """Return the claims of all deployments that share the present checkpoint, oldest first."""
    for number in range(1, current.number + 1):
        if home.deployment(number).checkpoint == current.checkpoint:
            yield from home.claims(number)
