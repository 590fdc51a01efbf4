"""Checkpoints and sinks of a model stream: what was read is a number, what was written are ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_streaming.changes.handover.fast_forward import FastForward
from airflow_streaming.changes.handover.handover import HandoverPlan
from airflow_streaming.changes.handover.position import Position, SourcePoint
from airflow_streaming.checkpoints.read.report import SourceType
from airflow_streaming.exceptions import CheckpointError, CheckpointRefused
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.records.cutover import Pair
from airflow_streaming.model.records.deployment import Deployment


@dataclass
class ModelCheckpoint:
    """
    One query's checkpoint.

    :param ends: End offset of each committed batch.
    :param planned: End offset of the batch that is planned and not committed.
    """

    query_id: str
    ends: list[int] = field(default_factory=list)
    planned: int | None = None

    @property
    def batch(self) -> int | None:
        return len(self.ends) - 1 if self.ends else None

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def commit(self) -> None:
        assert self.planned is not None
        self.ends.append(self.planned)
        self.planned = None


class ModelCheckpoints:
    """
    The port of the engine over checkpoints in memory.

    :param step: Called before everything durable.
    """

    def __init__(self, step: Callable[[], None] = lambda: None) -> None:
        self.all: dict[tuple[str, str], ModelCheckpoint] = {}
        self.step = step
        self.refusal = ""

    def get(self, deployment: Deployment, query: str) -> ModelCheckpoint:
        key = (deployment.checkpoint, query)
        if key not in self.all:
            self.all[key] = ModelCheckpoint(query_id=f"id-{len(self.all)}")
        return self.all[key]

    def start(self, pair: Pair, blue: Deployment) -> Mapping[str, str]:
        if self.refusal:
            raise CheckpointRefused(self.refusal)
        found: dict[str, str] = {}
        for query in pair.queries:
            key = (pair.shadow.checkpoint, query)
            if pair.start is StartWay.FRESH:
                continue
            if key not in self.all:
                self.step()
                theirs = self.get(blue, query)
                self.all[key] = ModelCheckpoint(query_id=f"green {key}", ends=list(theirs.ends))
            found[query] = self.all[key].query_id
        return found

    def position(self, deployment: Deployment, query: str, batch: int | None = None) -> Position:
        found = self.all.get((deployment.checkpoint, query))
        if found is None:
            raise CheckpointError("There is no checkpoint yet.")
        return _position(found, batch)

    def look(self, ahead: Deployment, behind: Deployment, query: str) -> HandoverPlan:
        blue, green = self.get(ahead, query), self.get(behind, query)
        told = {"blue": _position(blue), "green": _position(green)}
        planned_in_blue = None if blue.planned is None else len(blue.ends)
        if green.planned is not None and green.planned <= blue.end:
            again = FastForward(batch=len(green.ends))
            return HandoverPlan(**told, absorb=again, planned_in_blue=planned_in_blue)
        if green.end > blue.end:
            return HandoverPlan(**told, waiting="Blue has not come as far as green.")
        if green.end < blue.end:
            absorb = FastForward(batch=len(green.ends), written={"end": b"%d" % blue.end})
            return HandoverPlan(**told, absorb=absorb, planned_in_blue=planned_in_blue)
        planned = None
        if blue.planned is not None:
            planned = FastForward(batch=len(green.ends), written={"end": b"%d" % blue.planned})
        return HandoverPlan(**told, planned=planned, planned_in_blue=planned_in_blue)

    def plan(self, behind: Deployment, query: str, plan: FastForward) -> None:
        green = self.get(behind, query)
        if not plan.written:
            return
        assert len(green.ends) == plan.batch, "A batch is planned that is not the next one."
        end = int(plan.written["end"])
        if green.planned is not None and green.planned != end:
            raise CheckpointRefused("Another plan is there.")
        self.step()
        green.planned = end

    def carry(self, ahead: Deployment, behind: Deployment, query: str) -> str:
        key = (behind.checkpoint, query)
        if key not in self.all:
            self.step()
            theirs = self.get(ahead, query)
            self.all[key] = ModelCheckpoint(
                query_id=f"carried {key}", ends=list(theirs.ends), planned=theirs.planned
            )
        return self.all[key].query_id

    def query_id(self, deployment: Deployment, query: str) -> str:
        found = self.all.get((deployment.checkpoint, query))
        return "" if found is None else found.query_id

    def location(self, deployment: Deployment, query: str) -> str:
        return f"file:{deployment.checkpoint}/{query}"


@dataclass
class Sink:
    """A sink that knows its batches by their numbers, and replaces what it has."""

    batches: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, batch: int, start: int, end: int) -> None:
        known = self.batches.get(batch)
        assert known is None or known == (start, end), (
            f"Batch {batch} was {known} and is {(start, end)} now."
        )
        self.batches[batch] = (start, end)

    def faults(self) -> str:
        """Say what is lost or doubled; empty when every row is there once."""
        at = 0
        for batch in sorted(self.batches):
            start, end = self.batches[batch]
            if start != at:
                return f"Batch {batch} begins at {start}, and {at} rows are there."
            at = end
        return ""


def _position(found: ModelCheckpoint, batch: int | None = None) -> Position:
    end = found.end if batch is None else found.ends[batch]
    return Position(
        batch=found.batch if batch is None else batch,
        sources=(
            SourcePoint(name="0", source=SourceType.NUMBER, offset=str(end), origin=b"clock"),
        ),
    )
