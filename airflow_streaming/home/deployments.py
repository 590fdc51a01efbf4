"""
The deployments of a stream, its live pointer, and what of them is removed for good, as records.

``orders/live/000003.json`` says that a lane becomes live with one step of a cutover, and counts as
soon as that step exists with that event (``model.records.cutover``). So the records of several streams
are written beforehand, one after another, and all begin to count in the one moment in which the
step is created.

A record must be written before its step is taken. A task that finds one for the same step and event
uses that, however long it slept before: so a slow task cannot put an old word behind a newer one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from airflow_streaming.exceptions import AlreadyExists, ApplicationNotFound, RecordError
from airflow_streaming.home.folder import APPEND_TRIES, StreamFolder
from airflow_streaming.model.names import is_path_part, number_of
from airflow_streaming.model.records.control import Removal, RemovalEnd, RemovalKind
from airflow_streaming.model.records.cutover import LiveRecord, effective
from airflow_streaming.model.records.cutover_table import CutoverTransition
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.uris import join
from airflow_streaming.model.wire import MAX_RECORD_BYTES


class Deployments(StreamFolder):
    """Read and create the deployments of one stream."""

    def newest_deployment(self) -> Deployment | None:
        """Return the deployment that should run, ``None`` before the first."""
        return self._newest(Deployment)

    def deployment_numbers(self) -> list[int]:
        """Return the numbers of all deployments, the newest last."""
        return self._numbers_of(Deployment)

    def deployment(self, number: int) -> Deployment:
        """
        Return one deployment.

        :raises RecordError: this number does not exist.
        """
        return self._numbered(Deployment, number)

    def create_deployment(self, deployment: Deployment, source: bytes) -> None:
        """
        Record a deployment together with its script.

        The copy of the script is written first, under a name with its digest. So a record never
        points at a missing or different script, and a copy without a record (because the writer
        died or lost) does no harm.

        :raises AlreadyExists: another deployment took the number first.
        :raises RecordError: the record's digest does not match the script.
        :raises ApplicationNotFound: the script is too large to keep.
        """
        self._check_source(deployment, source)
        self._keep_copy(deployment, source)
        if self._put(deployment) != deployment:
            raise AlreadyExists(self._shown(self._place(deployment)))

    def keep_application(self, deployment: Deployment, source: bytes) -> None:
        """
        Keep the script of a deployment that is going to be recorded.

        :raises RecordError: the deployment names another script.
        :raises ApplicationNotFound: the script is too large to keep.
        """
        self._check_source(deployment, source)
        self._keep_copy(deployment, source)

    def kept_application(self, deployment: Deployment) -> bytes:
        """
        Return the kept script of a deployment, recorded or not.

        :raises RecordError: its copy is missing or was changed.
        """
        digest = deployment.application_sha256
        path = self._layout.application(deployment.number, digest)
        source = self.store.read(path)
        if source is None or hashlib.sha256(source).hexdigest() != digest:
            raise RecordError(
                f"{self._shown(path)} is {'missing' if source is None else 'not the script'} that "
                f"deployment {deployment.number} was made with. Deploy the stream again."
            )
        return source

    def application(self, number: int) -> bytes:
        """
        Return the script of a deployment.

        :raises RecordError: no such deployment, or its copy is missing or was changed.
        """
        return self.kept_application(self.deployment(number))

    def _check_source(self, deployment: Deployment, source: bytes) -> None:
        if hashlib.sha256(source).hexdigest() != deployment.application_sha256:
            raise RecordError(
                f"Deployment {deployment.number} of stream {self.name!r} names another script than "
                "the one given with it. Nothing was recorded."
            )
        if len(source) > MAX_RECORD_BYTES:
            raise ApplicationNotFound(
                f"Application {deployment.application!r} of stream {self.name!r} is larger than "
                f"{MAX_RECORD_BYTES} bytes. Give the script, and put libraries into py_files."
            )

    def _keep_copy(self, deployment: Deployment, source: bytes) -> None:
        path = self._layout.application(deployment.number, deployment.application_sha256)
        try:
            self.store.create(path, source)
        except AlreadyExists:
            if self.store.read(path) != source:
                raise


class Claims(StreamFolder):
    """Read and record which Spark query owns which checkpoint of one stream."""

    def claim(self, deployment: int, query: str) -> QueryClaim | None:
        """Return the claim on the checkpoint of a deployment's query, if there is one."""
        return self._get(QueryClaim, deployment=deployment, query=query)

    def claims(self, deployment: int) -> list[QueryClaim]:
        """Return the claims that were recorded under one deployment."""
        names = self.store.names(self._layout.folder(QueryClaim, deployment=deployment))
        queries = filter(is_path_part, (name.removesuffix(".json") for name in names))
        found = (self.claim(deployment, query) for query in queries)
        return [claim for claim in found if claim is not None]

    def claim_of(self, query_id: str) -> QueryClaim | None:
        """Return the newest claim of a query of this stream, whatever checkpoint it is on."""
        folders = self.store.names(self._layout.folder("queries"))
        numbers = (number_of(f"{name}.json") for name in folders)
        for number in sorted((one for one in numbers if one is not None), reverse=True):
            for claim in reversed(self.claims(number)):
                if claim.query_id == query_id:
                    return claim
        return None

    def batch_shift(self, query_id: str) -> int:
        """
        Return the number that is added to the batch ids of a query of this stream.

        It belongs to the query's id, which is in the checkpoint: a copy restored elsewhere counts
        on from the same numbers.
        """
        claim = self.claim_of(query_id)
        return claim.batch_shift if claim else 0

    def add_claim(self, deployment: int, claim: QueryClaim) -> None:
        """Record the claim of a query on a new checkpoint, unless a driver has recorded one."""
        self._create(claim, deployment=deployment)


class LivePointer(StreamFolder):
    """Read and move the live pointer of one stream; use it on the home of the base lane."""

    def live_records(self) -> list[LiveRecord]:
        """Return all records, oldest first, those included that never came to count."""
        return [self._numbered(LiveRecord, number) for number in self._numbers_of(LiveRecord)]

    def live_record(self, *, after: int = 0) -> tuple[LiveRecord, CutoverTransition] | None:
        """
        Return the record that counts, and the step that made it count.

        :param after: Look only at records with a higher number: did the pointer move since?
        :returns: ``None`` while the stream has never been moved: its base lane is live.
        """
        for record in self._newest_live_first(after):
            step = self.live_step(record.leader, record.change, record.step)
            if step is not None and step.event is record.event:
                return record, step
        return None

    def live_step(self, leader: str, change: int, step: int) -> CutoverTransition | None:
        """Return a step of a cutover, of whichever stream; ``None`` when it was not taken yet."""
        return self.beside(leader)._get(CutoverTransition, change=change, number=step)

    def point(self, record: LiveRecord) -> LiveRecord:
        """
        Record that a lane becomes live with the next step.

        :param record: Its number is ignored: the next one is assigned.
        :returns: The record for this step and event, perhaps another task's. Its number rises with
            every move of the stream and is passed to pointers outside.
        """
        for _ in range(APPEND_TRIES):
            numbers = self._numbers_of(LiveRecord)
            found = self._same(record)
            if found is not None:
                return found
            new = replace(record, number=numbers[-1] + 1 if numbers else 1)
            if self._create(new):
                return new
        raise self._never_first(LiveRecord)

    def _same(self, wanted: LiveRecord) -> LiveRecord | None:
        """Return the record for the same step and event."""
        for record in self._newest_live_first():
            if _key(record) == _key(wanted):
                return record
            # Records of an earlier cutover were written before this one began; another leader's
            # numbers cannot be compared.
            is_earlier = record.leader == wanted.leader and record.change < wanted.change
            if is_earlier and effective([record], self.live_step) is not None:
                return None
        return None

    def _newest_live_first(self, after: int = 0) -> Iterator[LiveRecord]:
        for number in reversed(self._numbers_of(LiveRecord)):
            if number <= after:
                return
            yield self._numbered(LiveRecord, number)


def _key(record: LiveRecord) -> tuple[str, int, int, str]:
    return record.leader, record.change, record.step, record.event.value


class Removals(StreamFolder):
    """Read and record the removals of one stream, or lane."""

    def removals(self) -> list[Removal]:
        """Return all removals, oldest first, including unfinished ones."""
        return [self._numbered(Removal, number) for number in self._numbers_of(Removal)]

    def removal_end(self, number: int) -> RemovalEnd | None:
        """Return how a removal ended, ``None`` while files of it may be left."""
        return self._get(RemovalEnd, number=number)

    def record_removal(self, removal: Removal) -> Removal:
        """
        Record a removal under the next number; return the removal that counts for its folder.

        :param removal: Its number is ignored.
        :raises HomeUnavailable: it could not be recorded, so the removal must not begin.
        """
        for _ in range(APPEND_TRIES):
            known = self.removals()
            same = [one for one in known if (one.what, one.name) == (removal.what, removal.name)]
            if same:
                return same[0]
            number = known[-1].number + 1 if known else 1
            new = replace(removal, number=number)
            if self._create(new):
                return new
        raise self._never_first(Removal)

    def end_removal(self, end: RemovalEnd) -> RemovalEnd:
        """Record that nothing of a removal's folder is left; the first record counts."""
        return self._put(end)

    def removal_of(self, checkpoint: str) -> Removal | None:
        """
        Return the removal of a checkpoint, begun or done; ``None`` when it is not removed.

        :param checkpoint: URI of a deployment's checkpoint.
        """
        own = join(self.store.uri, self._layout.folder("checkpoints"))
        for removal in self.removals():
            is_it = checkpoint.rstrip("/") == join(own, removal.name)
            if removal.what is RemovalKind.CHECKPOINT and is_it:
                return removal
        return None
