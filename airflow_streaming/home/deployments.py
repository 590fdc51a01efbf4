"""The deployments of a stream: what runs, with the script beside it."""

from __future__ import annotations

import hashlib

from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.wire import MAX_RECORD_BYTES
from airflow_streaming.exceptions import AlreadyExists, ApplicationNotFound, RecordError
from airflow_streaming.home.folder import StreamFolder


class Deployments(StreamFolder):
    """Read and create the deployments of one stream."""

    def newest_deployment(self) -> Deployment | None:
        """Return the deployment that should run, ``None`` before the first."""
        return self._newest(Deployment, "deployments")

    def deployment(self, number: int) -> Deployment:
        """
        Return one deployment.

        :raises RecordError: there is none of that number.
        """
        return self._numbered(Deployment, "deployments", number)

    def create_deployment(self, deployment: Deployment, source: bytes) -> None:
        """
        Record a deployment together with its script.

        The copy of the script is written first, under a name that holds its digest. So a record
        never points at a missing or foreign script, and a copy whose record was never written
        (because the writer died or lost) stands in nobody's way.

        :raises AlreadyExists: another deployment took the number first.
        :raises RecordError: the record's digest is not that of the script.
        :raises ApplicationNotFound: the script is too large to keep.
        """
        self._check_source(deployment, source)
        self._keep_copy(deployment, source)
        path = self._layout.record("deployments", deployment.number)
        if self._create_or_read(deployment, path, number=deployment.number) != deployment:
            raise AlreadyExists(self._shown(path))

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

    def claim(self, deployment: int, query: str) -> QueryClaim | None:
        """Return which Spark query owns the checkpoint of a deployment's query, if any does."""
        return self._read(QueryClaim, self._layout.claim(deployment, query), query=query)

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
