"""The records of a cutover, written by the test in place of whoever carries it out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.control import Change, ChangeEnd, ChangeKind, ChangeOutcome
from airflow_streaming.model.records.cutover import CutoverTerms, LiveRecord, Pair
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverEvent, CutoverTransition
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.supervision.decide import Action, Step
from tests.unit.world import World

BLUE, GREEN = "orders", "orders.green"

E = CutoverEvent
TO_READY = (E.BEGIN, E.GREEN_STARTED, E.GREEN_CAUGHT_UP, E.GREEN_WELL, E.OUTPUT_SAME)
TO_DRAINING = (*TO_READY, E.HAND_OVER, E.STANDBY_READY)
TO_SWITCHING = (*TO_DRAINING, E.BLUE_DRAINED)
TO_SOAKING = (E.SWITCHED, E.GREEN_COMMITTED)
TO_FINALIZED = (E.SOAK_PASSED, E.BLUE_STOPPED)
TO_ROLLED_BACK = (E.SOAK_FAILED, E.UNDONE)


def lane(world: World, name: str) -> StreamHome:
    return open_home(world.uri).stream(name)


class TwoLanes:
    """
    A cutover of stream ``orders``.

    :param blue: The lane that is live when it begins.
    """

    def __init__(self, world: World, blue: str = BLUE) -> None:
        self.world = world
        self.blue, self.green = blue, other_lane(blue)
        self.leader = lane(world, BLUE)
        self.number = 0
        self.guest = 0

    def start_green(self, **spec: Any) -> Deployment:
        """Deploy and launch green, as a cutover does before it asks anything of blue."""
        hook = self.world.operator(**spec).open_hook(self.world.context()).lane(self.green)
        source = self.world.script.read_bytes()
        deployment = hook.controller.propose(
            hook.runtime("spark-4.3"), str(self.world.script), source, fresh=True
        )
        assert hook.controller.deploy(deployment, source)
        step = Step(action=Action.LAUNCH, reason="It starts green.", cause=LaunchCause.CUTOVER)
        assert hook.controller.begin(hook.observer().situation(), step) is not None
        return deployment

    def begin(self, *events: CutoverEvent) -> None:
        """Record the change in both lanes, and the first steps."""
        self.number = self.leader.next_change()
        terms = CutoverTerms(change=self.number, way=SwitchMethod.HANDOVER, pairs=(self._pair(),))
        lead = self._change(BLUE, self.number, terms=self.leader.keep_cutover_terms(terms))
        self.leader.begin_change(lead)
        guest = lane(self.world, GREEN)
        self.guest = guest.next_change()
        guest.begin_change(self._change(GREEN, self.guest, leader=f"{BLUE}/{self.number}"))
        self.take(*events)

    def take(self, *events: CutoverEvent) -> None:
        """Take steps; the pointer moves with those that move it."""
        for event in events:
            history = self.leader.steps(self.number)
            if event is E.SWITCHED:
                self._point(self.green, len(history) + 1, event)
            if event is E.UNDONE and any(step.event is E.SWITCHED for step in history):
                self._point(self.blue, len(history) + 1, event)
            self.leader.take_step(
                CutoverTransition(
                    change=self.number,
                    number=len(history) + 1,
                    before=CUTOVER.state_of(history),
                    event=event,
                    after=CUTOVER.after(CUTOVER.state_of(history), event),
                    reason="The test says so.",
                    at=datetime.now(UTC),
                    by="test",
                )
            )

    def close(self, outcome: ChangeOutcome) -> None:
        """Close the change in both lanes."""
        for home, number in ((lane(self.world, GREEN), self.guest), (self.leader, self.number)):
            home.end_change(
                ChangeEnd(
                    number=number,
                    outcome=outcome,
                    by="test",
                    reason="The test ends it.",
                    at=datetime.now(UTC),
                )
            )

    def whole(self) -> None:
        """Take a cutover from its beginning to its good end."""
        self.begin(*TO_SWITCHING, *TO_SOAKING, *TO_FINALIZED)
        self.close(ChangeOutcome.DONE)

    def _pair(self) -> Pair:
        blue, green = (lane(self.world, name) for name in (self.blue, self.green))
        runs, comes = blue.newest_deployment(), green.newest_deployment()
        assert runs is not None
        shadow = comes or replace(runs, stream=self.green, number=1)
        return Pair(
            stream=BLUE,
            blue=self.blue,
            green=self.green,
            blue_deployment=runs.number,
            shadow=shadow,
            live=shadow,
            start=StartWay.FRESH,
        )

    def _change(self, name: str, number: int, **told: str) -> Change:
        return Change(
            number=number,
            stream=name,
            what=ChangeKind.CUTOVER,
            replaced=1,
            deployment=1,
            checkpoint="",
            by="test",
            reason="The test cuts over.",
            at=datetime.now(UTC),
            **told,
        )

    def _point(self, name: str, step: int, event: CutoverEvent) -> None:
        deployment = lane(self.world, name).newest_deployment()
        self.leader.point(
            LiveRecord(
                number=0,
                stream=BLUE,
                lane=name,
                deployment=deployment.number if deployment else 1,
                output=deployment.output if deployment else "",
                leader=BLUE,
                change=self.number,
                step=step,
                event=event,
                at=datetime.now(UTC),
                by="test",
            )
        )
