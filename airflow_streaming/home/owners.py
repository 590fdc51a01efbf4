"""Which dag owns a stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_streaming.exceptions import HomeUnavailable, NotTheOwner
from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.owner import Actor, Owner, claimed, refusal


class Owners(StreamFolder):
    """Read and change the owner of one stream; both lanes have the same."""

    def owner(self) -> Owner | None:
        """Return the newest record of the owner, ``None`` before the first deployment."""
        return self._base()._newest(Owner)

    def check_owner(self, actor: Actor, *, to_keep: bool = False) -> None:
        """
        Do nothing for a dag that may change the stream, or for a stream without an owner.

        :param to_keep: The dag wants to deploy the stream and keep it alive.
        :raises NotTheOwner: the stream belongs to another dag.
        """
        owner = self.owner()
        refused = owner and refusal(owner, actor, self.store.uri, to_keep=to_keep)
        if refused:
            raise NotTheOwner(refused)

    def claim_ownership(
        self, actor: Actor, shared_with: Sequence[str] = (), *, by: str, now: datetime
    ) -> Owner:
        """
        Record the dag that keeps the stream alive as its owner; return the record that counts.

        :param shared_with: Ids of other dags that may change the stream.
        :raises NotTheOwner: the stream belongs to another dag.
        """

        def change(newest: Owner | None, number: int) -> Owner | None:
            return claimed(
                newest, actor, shared_with, stream=base.name, number=number, by=by, now=now
            )

        base = self._base()
        owner = base._append(Owner, change)
        if owner is None:
            raise HomeUnavailable(f"The owner of {base.name!r} was not recorded. Try again.")
        refused = refusal(owner, actor, self.store.uri, to_keep=True)
        if refused:
            raise NotTheOwner(refused)
        return owner

    def hand_over(self, dag_id: str, *, by: str, reason: str, now: datetime) -> Owner:
        """
        Record another dag as the owner; return the newest record.

        Its file, bundle and team are recorded when it first keeps the stream alive.
        """

        def change(newest: Owner | None, number: int) -> Owner | None:
            if newest is not None and newest.dag_id == dag_id:
                return None
            return Owner(
                number=number, stream=base.name, dag_id=dag_id, by=by, reason=reason, at=now
            )

        base = self._base()
        owner = base._append(Owner, change)
        if owner is None:
            raise HomeUnavailable(f"The owner of {base.name!r} was not recorded. Try again.")
        return owner

    def _base(self) -> Owners:
        return self if base_of(self.name) == self.name else self.beside(base_of(self.name))
