"""The lanes and pointers of the streams that one dag switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.exceptions import CutoverRefused, SpecError
from airflow_streaming.model.names import base_of, other_lane
from airflow_streaming.spec import StreamSpec

if TYPE_CHECKING:
    from airflow_streaming.changes.cutover.lanes import Candidate, LaneContext
    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.launch.runtime import Runtime
    from airflow_streaming.model.records.cutover import Pair
    from airflow_streaming.model.records.deployment import Deployment


class DagLanes:
    """
    Opens the lanes of the streams of one dag.

    :param hooks: Of the streams as they are to become, by name, in the order of the dag.
    """

    def __init__(self, hooks: Mapping[str, SparkStreamHook]) -> None:
        self._hooks = dict(hooks)
        self.memory: Mapping[str, Any] = {}
        """The observers' memory of the lanes, by name."""

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

    def open(self, stream: str, lane: str) -> LaneContext:
        """
        Return the context of one lane.

        :raises CutoverRefused: the stream is not in this dag.
        """
        from airflow_streaming.changes.cutover.lanes import LaneContext  # not at dag parse

        hook = self.hook(stream).lane(lane)
        return LaneContext(
            home=hook.home,
            controller=hook.controller,
            acts=hook.controller,
            observer=hook.observer(self.memory.get(lane)),
        )

    def candidates(self) -> list[Candidate]:
        """Return every stream with its live lane and the dag's proposal for the other lane."""
        return [self._candidate(stream) for stream in self._hooks]

    def _candidate(self, stream: str) -> Candidate:
        from airflow_streaming.changes.cutover.lanes import Candidate  # not at dag parse

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
            program=green.program,
            runtime=green.runtime(hook.asked.runtime),
            of_profile=hook.profile_keys,
        )

    def spark_of(self, pair: Pair) -> tuple[Runtime, Mapping[str, Any]]:
        """Return green's Spark, and its configuration with secrets."""
        hook = self.hook(pair.stream)
        green = hook.lane(pair.green)
        source = green.home.kept_application(pair.shadow)
        runtime = green.runtime(hook.asked.runtime)
        return runtime, green.program(pair.shadow, source).conf

    def hook(self, lane: str) -> SparkStreamHook:
        """
        Return the hook of a stream.

        :param lane: Name of the stream, or of either lane.
        :raises CutoverRefused: the stream is not in this dag.
        """
        stream = base_of(lane)
        found = self._hooks.get(stream)
        if found is None:
            raise CutoverRefused(
                f"Stream {stream!r} takes part in this cutover, but this DAG only has "
                f"{', '.join(self._hooks)}. Continue it with the DAG that started it."
            )
        return found


def usable(pointers: Mapping[str, Pointer]) -> dict[str, Pointer]:
    """Return pointers by name; pointers that need a Spark get this deployment's runtimes."""
    from airflow_streaming.changes.pointers.spark import with_runtimes  # not at dag parse
    from airflow_streaming.settings import read_settings  # not at dag parse

    runtimes = read_settings().runtimes
    return {
        name: with_runtimes([pointer], runtimes)[pointer.name] for name, pointer in pointers.items()
    }


def check_together(streams: Sequence[StreamSpec]) -> None:
    """
    Do nothing for streams that can switch together.

    :raises SpecError: two have one name, or they are in different homes.
    """
    names = [one.name for one in streams]
    if len(set(names)) != len(names):
        raise SpecError(f"Streams that switch together need different names: {', '.join(names)}.")
    if len({one.home for one in streams}) > 1:
        raise SpecError(
            "Streams that switch together need one home, because one record there moves them all."
        )


def by_name(
    pointers: Sequence[Pointer] | Mapping[str, Sequence[Pointer]], leader: str
) -> dict[str, Pointer]:
    """
    Return pointers by their name in the terms, which is ``STREAM/NAME`` but for the leader's.

    :param pointers: Of the stream that leads, or of several by the stream's name.
    :raises SpecError: two have one name.
    """
    told = pointers if isinstance(pointers, Mapping) else {leader: pointers}
    named = [
        (pointer.name if stream == leader else f"{stream}/{pointer.name}", pointer)
        for stream, some in told.items()
        for pointer in some
    ]
    found = dict(named)
    if len(found) < len(named):
        raise SpecError(
            f"Pointers need names of their own: {', '.join(name for name, _ in named)}."
        )
    return found
