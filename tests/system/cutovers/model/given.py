"""What a simulated worker is given: hands in the lanes, and the terms of one cutover."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_streaming.changes.cutover.lanes import Candidate, Facts, LaneContext, pair_of
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.cutover import CutoverTerms
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.upgrade import SinkFacts
from airflow_streaming.model.storage import Store
from tests.system.cutovers.model.course import Course
from tests.system.cutovers.model.driver import QUERY
from tests.system.cutovers.model.world import RUNTIME, STREAM, World


class Lanes:
    """Hands in the lanes of a world, for one worker."""

    def __init__(self, world: World, store: Store, launcher: Any, by: str) -> None:
        self._world, self._store, self._launcher, self._by = world, store, launcher, by

    def open(self, stream: str, lane: str) -> LaneContext:
        del stream
        controller = self._world.controller(lane, self._by, self._store, self._launcher)
        return LaneContext(
            home=self._world.home(lane, self._store),
            controller=controller,
            acts=controller,
            observer=self._world.observer(lane, self._store),
        )


@dataclass
class Terms:
    """The terms of one leg, made once."""

    world: World
    course: Course
    number: int
    made: tuple[CutoverTerms, bytes] | None = None

    def of(self) -> tuple[CutoverTerms, bytes]:
        if self.made is None:
            self.made = self._make()
        return self.made

    def is_begun(self) -> bool:
        home = self.world.home(STREAM)
        led = [change for change in home.changes() if home.leads(change)]
        return any(home.cutover_terms(change).key == self._key for change in led)

    @property
    def _key(self) -> str:
        return f"leg-{self.number}"

    def _make(self) -> tuple[CutoverTerms, bytes]:
        world, course, leg = self.world, self.course, self.course.legs[self.number]
        blue = live_lane(Home(world.store), STREAM)
        green = other_lane(blue)
        source = f"# {leg.code} {self.number}\n".encode()
        application = f"/jobs/{leg.code}.py"

        def propose(_: object) -> tuple[Deployment, bytes]:
            controller = world.controller(green, "kim")
            return controller.propose(RUNTIME, application, source, fresh=True), source

        candidate = Candidate(
            stream=STREAM,
            home=world.uri,
            blue=world.home(blue),
            green=green,
            propose=propose,
            program=_no_program,
            runtime=RUNTIME,
        )
        pair, _ = pair_of(candidate, course.way, self._facts())
        terms = CutoverTerms(
            change=1,
            way=course.way,
            pairs=(pair,),
            ready=ReadyTerms(well_for=timedelta(seconds=6), batches=2),
            soak=SoakTerms(
                batches=2, at_least=timedelta(seconds=10), at_most=timedelta(seconds=120)
            ),
            compare=(CompareTerms(stream=STREAM),),
            promotes_by_itself=True,
            retain_blue=timedelta(0),
            keeps_blue_running=course.seed % 2 == 0,
            deadlines={"catching_up": timedelta(seconds=200), "shadowing": timedelta(seconds=200)},
            stop_grace=timedelta(seconds=20),
            key=self._key,
        )
        assert hashlib.sha256(source).hexdigest() == pair.shadow.application_sha256
        return terms, source

    def _facts(self) -> Facts:
        shape = self.course.shape
        facts = SinkFacts(
            query=QUERY,
            sink="file" if shape.has_log else "foreachbatch",
            habit=SinkReplaySemantics.FILE_LOG if shape.has_log else SinkReplaySemantics.REMEMBERS,
            is_stateful=shape.is_stateful,
        )
        return Facts(
            start=self.course.start,
            queries=(QUERY,),
            stateful=(QUERY,) if shape.is_stateful else (),
            sinks=(facts,),
        )


def _no_program(*_: object) -> Any:
    raise AssertionError("Nothing is planned here.")
