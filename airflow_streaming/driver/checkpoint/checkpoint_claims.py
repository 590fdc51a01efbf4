"""
Whose checkpoint is it? Which Spark query a checkpoint belongs to, and which one this stream claims.

Spark writes a query id into a new checkpoint and starts happily in an empty folder. The stream
remembers the id in a claim, so that a checkpoint which has vanished or was exchanged is refused
instead of being started empty.

A claim belongs to the checkpoint, and a new deployment may keep the checkpoint of an older one. So
a claim is looked for under every deployment, the newest first, and is found by the location in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from airflow_streaming.driver.errors import logger
from airflow_streaming.exceptions import (
    AlreadyExists,
    CheckpointMismatch,
    DriverRefusal,
    HomeUnavailable,
    RecordError,
    closed,
)
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.storage import Store
from airflow_streaming.model.wire import parse_json

_DEPLOYMENT: Final = re.compile(r"0*([1-9]\d{0,11})")


def query_id_in(checkpoint: Store) -> str | None:
    """
    Return the query id in a checkpoint; ``None`` when it is new, empty or gone.

    :raises CheckpointMismatch: the ``metadata`` file is not what Spark writes.
    """
    data = checkpoint.read("metadata")
    if data is None or not data.strip():
        return None
    try:
        return str(parse_json(data)["id"])
    except (RecordError, KeyError) as err:
        raise CheckpointMismatch(
            f"{checkpoint.uri}/metadata is not what Spark writes there: {closed(err)} Restore the "
            "checkpoint from a backup."
        ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """
    How far a checkpoint has come.

    :param planned: Its newest planned batch, ``None`` before the first; ``committed`` likewise.
    """

    planned: int | None
    committed: int | None


def batches_reached(checkpoint: Store) -> Reached:
    """Return how far a checkpoint has come."""
    # Read in this order: a batch committed in between must not look unplanned.
    committed = _newest(checkpoint, "commits")
    return Reached(planned=_newest(checkpoint, "offsets"), committed=committed)


def batch_in_work(checkpoint: Store) -> int | None:
    """Return the batch after the last committed one; ``None`` when nothing was planned yet."""
    reached = batches_reached(checkpoint)
    if reached.planned is None:
        return None
    return reached.planned + 1 if reached.planned == reached.committed else reached.planned


def has_batch_in_work(checkpoint: Store) -> bool:
    """Tell whether a checkpoint has planned a batch and not committed it."""
    reached = batches_reached(checkpoint)
    return reached.planned is not None and reached.planned != reached.committed


def _newest(checkpoint: Store, log: str) -> int | None:
    # Of a superscript isdigit is true as well, and int refuses it.
    return max((int(name) for name in checkpoint.names(log) if name.isdecimal()), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClaim:
    """A claim and the file it was read from."""

    path: str
    claim: QueryClaim


class Claims:
    """
    The claims of one stream.

    :param deployment: Number of the deployment that runs.
    """

    def __init__(self, store: Store, layout: Layout, *, deployment: int, epoch: int) -> None:
        self._store, self._layout = store, layout
        self._deployment, self._epoch = deployment, epoch
        self._unwritten: dict[str, QueryClaim] = {}

    def move(self, epoch: int) -> None:
        """Claim on behalf of another epoch of the same deployment from now on."""
        self._epoch = epoch

    def check(
        self, query: str, checkpoint: Store, location: str, *, must_know: bool = False
    ) -> QueryClaim | None:
        """
        Check that a query may start on a checkpoint, and return its claim, if any.

        :param location: The checkpoint's qualified location.
        :param must_know: The query needs the batch ids of the claim. A batch that is in the sink
            already matters to every query with a planned batch.
        :raises DriverRefusal: the checkpoint belongs to another query, or its content is gone.
        :raises HomeUnavailable: neither the checkpoint nor the claim can be read.
        """
        found_id = query_id_in(checkpoint)
        try:
            found = self.find(query, location)
        except HomeUnavailable:
            if found_id is None or must_know or has_batch_in_work(checkpoint):
                raise
            logger.warning(
                "The claim of query %r could not be read; its checkpoint is there.", query
            )
            return None
        if found is not None:
            judge_claim(found.claim, found_id, f"{self._store.uri}/{found.path}")
            return found.claim
        if found_id is None:
            self._check_not_moved(query, location)
        return None

    def find(self, query: str, location: str) -> FoundClaim | None:
        """Return the claim on a checkpoint by a query of this name, the newest deployment first."""
        for number in self._deployments():
            path = self._layout.place(QueryClaim, deployment=number, query=query)
            data = self._store.read(path)
            if data is None:
                continue
            try:
                claim = self._layout.parse(QueryClaim, data, deployment=number, query=query)
            except RecordError as err:
                raise DriverRefusal(
                    f"{self._store.uri}/{path} cannot be read: {err} It says which checkpoint "
                    f"query {query!r} owns; repair or delete it."
                ) from err
            if claim.checkpoint == location:
                return FoundClaim(path=path, claim=claim)
        return None

    def check_below(self, place: str, open_checkpoint: Callable[[str], Store]) -> None:
        """
        Check that no claimed checkpoint below a place is gone or exchanged.

        :param place: A qualified location that ends with a slash.
        :raises CheckpointMismatch: one is.
        :raises RecordError: a claim is malformed.
        """
        for found in self._below(place):
            found_id = query_id_in(open_checkpoint(found.claim.checkpoint))
            judge_claim(found.claim, found_id, f"{self._store.uri}/{found.path}")

    def _below(self, place: str) -> Iterable[FoundClaim]:
        """Return the newest claim of each query on a checkpoint below a place."""
        found: dict[str, FoundClaim] = {}
        for number in self._deployments():
            for name in self._store.names(self._layout.folder(QueryClaim, deployment=number)):
                query = name.removesuffix(".json")
                path = self._layout.place(QueryClaim, deployment=number, query=query)
                data = self._store.read(path)
                if data is None or query in found:
                    continue
                claim = self._layout.parse(QueryClaim, data, deployment=number, query=query)
                if claim.checkpoint.startswith(place):
                    found[query] = FoundClaim(path=path, claim=claim)
        return found.values()

    def _deployments(self) -> list[int]:
        """Return the numbers of the deployments with claims, the newest first."""
        folders = self._store.names(self._layout.folder("queries"))
        return sorted(
            {int(m[1]) for name in folders if (m := _DEPLOYMENT.fullmatch(name))}, reverse=True
        )

    def _check_not_moved(self, query: str, location: str) -> None:
        # A location with today's date or a random part in it would start empty at every restart.
        place: dict[str, int | str] = {"deployment": self._deployment, "query": query}
        path = self._layout.place(QueryClaim, **place)
        data = self._store.read(path)
        claim = None if data is None else self._layout.parse(QueryClaim, data, **place)
        if claim is None or claim.epoch == self._epoch:
            return
        raise DriverRefusal(
            f"Query {query!r} kept its state in {claim.checkpoint} until epoch {claim.epoch}; now "
            f"its script asks for {location}, which is empty. Use one checkpoint per query name; "
            f"or, to start empty on purpose, delete {self._store.uri}/{path}."
        )

    def keep(self, query: str, query_id: str, location: str) -> None:
        """Remember that a started query owns its checkpoint; written now or by a later beat."""
        self._unwritten[query] = QueryClaim(
            query=query, query_id=query_id, checkpoint=location, epoch=self._epoch
        )

    def write(self) -> None:
        """
        Write the claims that are not in the home yet.

        :raises HomeUnavailable: try again with the next beat.
        """
        for query, claim in list(self._unwritten.items()):
            if self.find(query, claim.checkpoint) is None:
                self._write(query, claim)
            self._unwritten.pop(query, None)

    def _write(self, query: str, claim: QueryClaim) -> None:
        path = self._layout.place(QueryClaim, deployment=self._deployment, query=query)
        data = self._layout.bytes_of(claim, deployment=self._deployment)
        try:
            self._store.create(path, data)
        except AlreadyExists:
            # The script uses this query's name on several checkpoints of its own choice.
            self._store.replace(path, data)


def judge_claim(claim: QueryClaim, found_id: str | None, path: str) -> None:
    """
    Compare a checkpoint's query id with the claim on it.

    :param path: The claim's file, for the message.
    :raises CheckpointMismatch: the checkpoint belongs to another query, or has no query id.
    """
    if found_id is None:
        raise CheckpointMismatch(
            f"Checkpoint {claim.checkpoint} of query {claim.query!r} (id {claim.query_id}) is empty "
            "or gone, and its state with it. Restore it; or, to start empty on purpose, delete "
            f"{path} and start the stream again."
        )
    if found_id != claim.query_id:
        raise CheckpointMismatch(
            f"Checkpoint {claim.checkpoint} belongs to query id {found_id}; this stream's "
            f"query {claim.query!r} is {claim.query_id}. Restore the right checkpoint. To "
            f"continue with the present one, delete {path} and start the stream again."
        )
