"""The plans of a stream's queries, as each epoch's driver recorded them."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_streaming.core.epoch import Epoch
from airflow_streaming.core.names import is_path_part, numbered
from airflow_streaming.core.plan.plan import QueryPlan
from airflow_streaming.home.folder import StreamFolder


class Plans(StreamFolder):
    """Read what each query of an epoch is, taken from its analysed plan."""

    def plans(self, epoch: int) -> list[QueryPlan]:
        """Return the plans of an epoch's queries by name; none of a driver that recorded none."""
        found = [self.plan(epoch, name) for name in self._planned(epoch)]
        return [plan for plan in found if plan is not None]

    def plan(self, epoch: int, query: str) -> QueryPlan | None:
        """Return the plan of one query of an epoch, ``None`` when there is none."""
        return self._read(QueryPlan, self._layout.plan(epoch, query), query=query)

    def newest_plans(self, deployment: int | None = None) -> list[QueryPlan]:
        """
        Return the newest plan of each query of one deployment, by name.

        A driver that was ended before all its queries started has recorded some of them only; those
        it has not are in an earlier epoch. What another deployment ran says nothing of this one.

        :param deployment: Its number; the newest one when not given.
        :return: None of a deployment whose drivers recorded none.
        """
        wanted = deployment or max(self._numbers("deployments"), default=0)
        found: dict[str, QueryPlan] = {}
        for epoch in self._epochs_of(wanted):
            for query in self._planned(epoch):
                plan = None if query in found else self.plan(epoch, query)
                if plan is not None:
                    found[query] = plan
        return [found[query] for query in sorted(found)]

    def _epochs_of(self, deployment: int) -> Iterator[int]:
        """Yield the numbers of a deployment's epochs, newest first."""
        for number in reversed(self._numbers("epochs")):
            of = self._numbered(Epoch, "epochs", number).deployment
            if of < deployment:
                # Nobody goes back to an older deployment under its old number.
                return
            if of == deployment:
                yield number

    def _planned(self, epoch: int) -> list[str]:
        folder = f"{self._layout.folder('epochs')}/{numbered(epoch)}/plans"
        names = (name.removesuffix(".json") for name in self.store.names(folder))
        return sorted(name for name in names if is_path_part(name))
