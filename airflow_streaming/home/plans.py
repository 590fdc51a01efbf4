"""The plans of a stream's queries, as each epoch's driver recorded them."""

from __future__ import annotations

from airflow_streaming.core.names import is_path_part, numbered
from airflow_streaming.core.plan.plan import QueryPlan
from airflow_streaming.home.folder import StreamFolder


class Plans(StreamFolder):
    """Read what each query of an epoch is, taken from its analysed plan."""

    def plans(self, epoch: int) -> list[QueryPlan]:
        """Return the plans of an epoch's queries by name; none of a driver that recorded none."""
        folder = f"{self._layout.folder('epochs')}/{numbered(epoch)}/plans"
        names = [name.removesuffix(".json") for name in self.store.names(folder)]
        found = [self.plan(epoch, name) for name in sorted(names) if is_path_part(name)]
        return [plan for plan in found if plan is not None]

    def plan(self, epoch: int, query: str) -> QueryPlan | None:
        """Return the plan of one query of an epoch, ``None`` when there is none."""
        return self._read(QueryPlan, self._layout.plan(epoch, query), query=query)

    def newest_plans(self) -> list[QueryPlan]:
        """Return the plans of the newest epoch that has any; none when no epoch has."""
        for number in reversed(self._numbers("epochs")):
            found = self.plans(number)
            if found:
                return found
        return []
