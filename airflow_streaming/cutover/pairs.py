"""
Pairs: what is to be moved of each stream, made of what the dag proposes for the other lane.

Made twice of the same facts a pair is the same, as long as nobody else deploys in either lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.checkpoint.drill_program import Program
from airflow_streaming.core.cutover.terms import Pair, StartWay, SwitchWay
from airflow_streaming.core.deployment import Deployment
from airflow_streaming.core.names import Layout
from airflow_streaming.core.uris import join
from airflow_streaming.exceptions import CutoverRefused
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.runtime import Runtime

BY_PLACE: Final = frozenset({"stream", "checkpoint", "output"})
"""What differs between two lanes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """
    One stream that is to be moved.

    :param stream: Its name.
    :param home: URI of the home.
    :param blue: Records of the lane that is live.
    :param green: Name of the other lane.
    :param propose: Makes green's deployment, with a checkpoint and an output of its own, and reads
        the script; it is given the configuration that belongs to a copied checkpoint, or ``None``.
    :param program: Joins a deployment, its script and the dag's secrets, for plan mode.
    :param runtime: The Spark that is to run it.
    """

    stream: str
    home: str
    blue: StreamHome
    green: str
    propose: Callable[[Mapping[str, str] | None], tuple[Deployment, bytes]]
    program: Callable[[Deployment, bytes], Program]
    runtime: Runtime

    def current(self) -> Deployment:
        """
        Return the deployment that is live.

        :raises CutoverRefused: there is none.
        """
        found = self.blue.newest_deployment()
        if found is None:
            raise CutoverRefused(
                f"Stream {self.stream!r} has never run, so there is nothing to cut over from. Its "
                "keep-alive dag starts it."
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What planning has found of a stream, and a pair is made with; the fields are the pair's."""

    start: StartWay
    replay_from: str = ""
    queries: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    sinks: tuple[Any, ...] = ()


def pair_of(candidate: Candidate, way: SwitchWay, facts: Facts) -> tuple[Pair, bytes]:
    """
    Return what is to be moved of one stream, and green's script.

    Made twice of the same facts it is the same, as long as nobody else deploys in either lane.

    :raises CutoverRefused: the stream has never run.
    :raises SpecError: the script or the runtime is not there.
    """
    current = candidate.current()
    is_copied = facts.start is StartWay.CLONED
    proposed, source = candidate.propose(current.conf if is_copied else None)
    shadow = replace(proposed, replay_from=facts.replay_from)
    return (
        Pair(
            stream=candidate.stream,
            blue=candidate.blue.name,
            green=candidate.green,
            blue_deployment=current.number,
            shadow=shadow,
            live=shadow if way is SwitchWay.PARALLEL else _on_one_sink(candidate, shadow, facts),
            start=facts.start,
            queries=facts.queries,
            stateful=facts.stateful,
            sinks=facts.sinks,
        ),
        source,
    )


def _on_one_sink(candidate: Candidate, shadow: Deployment, facts: Facts) -> Deployment:
    """Return what green runs after a handover: in blue's output, with the state it has warmed."""
    number = shadow.number + 1
    fresh = join(candidate.home, Layout(candidate.green).checkpoint(number))
    return replace(
        shadow,
        number=number,
        output=candidate.current().output,
        checkpoint=shadow.checkpoint if facts.stateful else fresh,
    )


def is_proposed(pairs: Sequence[Pair], candidates: Sequence[Candidate]) -> bool:
    """Tell whether what a cutover moves is what is proposed now, but for where it lies."""
    if [pair.stream for pair in pairs] != [one.stream for one in candidates]:
        return False
    return all(map(_is_same, pairs, candidates))


def _is_same(pair: Pair, candidate: Candidate) -> bool:
    is_copied = pair.start is StartWay.CLONED
    carried_on = pair.shadow.conf if is_copied else None
    proposed, _ = candidate.propose(carried_on)
    apart = {name: getattr(pair.shadow, name) for name in BY_PLACE}
    return replace(proposed, **apart).fingerprint == pair.shadow.fingerprint
