"""Case: the input of the version gate's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.matrix import Matrix, Release, Seen
from airflow_streaming.gates.version.shape import (
    MOST_ORDERED,
    PIN,
    SINCE,
    KeyOrder,
    Shape,
    compare_order,
    keeps_duplicates,
)
from airflow_streaming.model.spark.plan import OperatorKind, QueryPlan

_JOIN: Final = "symmetricHashJoin"
_DEDUPLICATES: Final = ("dedupe", "dedupeWithinWatermark")
_DEDUPLICATIONS: Final = (OperatorKind.DEDUPLICATE, OperatorKind.DEDUPLICATE_WITHIN_WATERMARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    A query that moves from one Spark to another.

    :param start: The Spark that ran it last; ``target`` its new Spark.
    :param conf: Configuration of the new deployment.
    :param schemas: State schemas of the checkpoint; ``None`` if they were not read.
    :param shapes: Its possible shapes in the matrix.
    """

    query: str
    start: Release
    target: Release
    conf: Mapping[str, str]
    checkpoint: Checkpoint
    plan: QueryPlan | None
    schemas: tuple[StoreSchema, ...] | None
    matrix: Matrix
    shapes: tuple[Shape, ...]

    @property
    def goes_up(self) -> bool:
        """Tell whether the target is of a newer minor release."""
        return self.target.minor > self.start.minor

    @property
    def goes_down(self) -> bool:
        """Tell whether the target is of an older minor release."""
        return self.target.minor < self.start.minor

    @property
    def stays(self) -> bool:
        """Tell whether both are of one minor release, which writes the same formats throughout."""
        return self.target.minor == self.start.minor

    @property
    def pair(self) -> tuple[str, str]:
        """The two versions as the matrix names them."""
        return self.start.name, self.target.name

    @property
    def seen(self) -> dict[Shape, Seen]:
        """Return the measurements of each measured shape."""
        return self._by_shape(self.matrix.seen)

    @property
    def seen_apart(self) -> dict[Shape, Seen]:
        """Return the expectation for each shape whose store was measured with other shapes only."""
        return self._by_shape(self.matrix.apart)

    def _by_shape(
        self, look: Callable[[str, str, tuple[str, str]], Seen | None]
    ) -> dict[Shape, Seen]:
        found = {shape: look(shape.name, shape.store, self.pair) for shape in self.shapes}
        return {shape: seen for shape, seen in found.items() if seen is not None}

    @property
    def exact_pair(self) -> str:
        """The two releases that were measured, for readers."""
        return " to ".join(f"Spark {self.matrix.exact(version)}" for version in self.pair)

    def crosses(self, version: str) -> bool:
        """Tell whether it goes up from before a version to it or beyond."""
        return self.start.is_before(version) and not self.target.is_before(version)

    @property
    def key_order(self) -> KeyOrder | None:
        """
        How the target orders the columns that duplicates are dropped by.

        ``None`` without a deduplication, or where its schema was not read.
        """
        return self._order(self.start, self.target, self.checkpoint.conf)

    @property
    def key_order_back(self) -> KeyOrder | None:
        """How the first Spark orders them when it comes back after the target has run."""
        conf = self.checkpoint.conf
        kept = {PIN: conf[PIN]} if PIN in conf and not self.target.is_before(SINCE) else {}
        return self._order(self.target, self.start, kept)

    def _order(self, start: Release, target: Release, conf: Mapping[str, str]) -> KeyOrder | None:
        stored = [one for one in self.schemas or () if keeps_duplicates(one)]
        if not stored:
            return None
        # By which order the state was begun, and whether the plans still say so.
        had = self.checkpoint.conf.get(PIN, self.checkpoint.lost_conf.get(PIN, "false"))
        by_code, still = had.lower() == "true", PIN in conf
        orders = {
            compare_order(one, start, target, by_code=by_code, is_pinned=by_code and still)
            for one in stored
        }
        worst_first = (KeyOrder.DIFFERENT, KeyOrder.UNTOLD, KeyOrder.SAME)
        return next(order for order in worst_first if order in orders)

    @property
    def orders_duplicates(self) -> bool:
        """Tell whether duplicates are dropped by so many columns that releases order them apart."""
        stored = [len(one.key) for one in self.schemas or () if keeps_duplicates(one)]
        if stored:
            return max(stored) > MOST_ORDERED
        planned = self.plan.operators if self.plan is not None else ()
        if planned:
            return any(
                each.sort in _DEDUPLICATIONS and not 0 < len(each.keys) <= MOST_ORDERED
                for each in planned
            )
        return any(each.name in _DEDUPLICATES for each in self.checkpoint.operators)

    @property
    def has_join(self) -> bool:
        """Tell whether the query joins two streams."""
        if self.plan is not None and self.plan.operators:
            return any(each.sort is OperatorKind.JOIN for each in self.plan.operators)
        return any(
            each.name == _JOIN or any(store.name.startswith("left-") for store in each.stores)
            for each in self.checkpoint.operators
        )
