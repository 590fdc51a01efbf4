"""The lanes of the streams that a dag moves: records, hands and eyes, opened with its connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_streaming.core.lanes import base_of, other_lane
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.launch.acts import StreamActs
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.observe.stream import Observer
from airflow_streaming.operators._upgrade.program import program_of

if TYPE_CHECKING:
    from airflow_streaming.core.deployment import Deployment
    from airflow_streaming.cutover.pairs import Candidate
    from airflow_streaming.cutover.ports import LaneHands
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook


class DagLanes:
    """
    Opens the lanes of the streams of one dag.

    :param hooks: Of the streams as they are to become, by name, in the order of the dag.
    """

    def __init__(self, hooks: Mapping[str, SparkStreamHook]) -> None:
        self._hooks = dict(hooks)
        self.memory: Mapping[str, Any] = {}
        """What observers remember of the lanes, by name."""

    @property
    def leader(self) -> str:
        """Return the stream that leads."""
        return next(iter(self._hooks))

    @property
    def by(self) -> str:
        """Return who acts, for the records."""
        return self._hooks[self.leader].by

    @property
    def home(self) -> StreamHome:
        """Return the records in which the cutover is led: the leader's base lane."""
        return self._hooks[self.leader].lane(self.leader).home

    def open(self, stream: str, lane: str) -> LaneHands:
        """
        Return the hands of one lane.

        :raises CutoverRefused: the stream is none of this dag's.
        """
        from airflow_streaming.cutover.ports import LaneHands  # not at dag parse

        hook = self.hook(stream).lane(lane)
        return LaneHands(
            home=hook.home,
            keeper=hook.keeper,
            acts=hook.keeper,
            observer=hook.observer(self.memory.get(lane)),
        )

    def candidates(self) -> list[Candidate]:
        """Return every stream with the lane that is live, and what the dag proposes for the other."""
        return [self._candidate(stream) for stream in self._hooks]

    def _candidate(self, stream: str) -> Candidate:
        from airflow_streaming.cutover.pairs import Candidate  # not at dag parse

        hook = self.hook(stream)
        blue = hook.live_lane()
        green = hook.lane(other_lane(blue))

        def propose(carried_on: Mapping[str, str] | None) -> tuple[Deployment, bytes]:
            return green.proposal(fresh=True, carried_on=carried_on)

        return Candidate(
            stream=stream,
            home=hook.asked.home,
            blue=hook.lane(blue).home,
            green=green.home.name,
            propose=propose,
            program=lambda deployment, source: program_of(green.spec, deployment, source),
            runtime=green.runtime(hook.asked.runtime),
        )

    def hook(self, lane: str) -> SparkStreamHook:
        """
        Return the hook of a stream.

        :param lane: Name of the stream, or of either lane.
        :raises CutoverRefused: the stream is none of this dag's.
        """
        stream = base_of(lane)
        found = self._hooks.get(stream)
        if found is None:
            raise CutoverRefused(
                f"Stream {stream!r} takes part in this cutover, and this dag has only "
                f"{', '.join(self._hooks)}. Go on with the dag that began it."
            )
        return found


class HomeLanes:
    """
    Opens the lanes of a home for one who gives a word, and launches nothing.

    :param home: URI of the home.
    :param leader: Name of the stream that leads.
    :param by: Who gives it, for the records.
    """

    def __init__(self, home: str, leader: str, home_conn_id: str | None, *, by: str) -> None:
        self._leader, self._by = leader, by
        self._streams = StreamHomeHook(home, home_conn_id).get_conn()

    @property
    def home(self) -> StreamHome:
        """Return the records in which the cutover is led: the leader's base lane."""
        return self._streams.stream(self._leader)

    def open(self, stream: str, lane: str) -> LaneHands:
        """Return the eyes of one lane; what needs a launch waits for the dag."""
        from airflow_streaming.cutover.ports import LaneHands  # not at dag parse

        home = self._streams.stream(lane)
        acts = StreamActs(home, LocalLauncher(), by=self._by)
        return LaneHands(
            home=home, keeper=None, acts=acts, observer=Observer(home, LocalLauncher())
        )

    def say(self, word: str, reason: str, change: int) -> None:
        """
        Give a word on a cutover, by its name: ``promote``, ``abort``, ``keep`` or ``roll_back``.

        :raises CutoverRefused: it cannot be given in the state of the cutover.
        """
        from airflow_streaming.cutover.cutting_over import Cutover  # not at dag parse

        engine = Cutover(self._leader, self, by=self._by)
        getattr(engine, word)(reason, change)
