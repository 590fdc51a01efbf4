"""
Which streams feed which others, through the datasets that they write and read. Pure.

Nodes are streams and datasets, never pairs of streams: a thousand writers and readers of one dataset are two thousand
edges. No walk keeps the streams upstream of each stream, which a long chain would make many millions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final, Self

from airflow_streaming.model.names import base_of
from airflow_streaming.model.products.datasets import StreamDatasets

_DATASET: Final = ""
"""Name under which datasets are origins; no stream has it."""
_ORIGINS: Final = 2
"""Origins kept by node: one of two is another stream than the node itself."""

Edges = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """
    Streams and their datasets.

    :param reads: By lane, the URIs of its inputs.
    :param writes: By lane, the URIs of its outputs.
    """

    reads: Edges
    writes: Edges

    @classmethod
    def of(cls, datasets: Mapping[str, StreamDatasets]) -> Self:
        """Return the graph of lanes with their datasets."""
        return cls(
            reads={lane: [name.uri for name in one.inputs] for lane, one in datasets.items()},
            writes={lane: [name.uri for name in one.outputs] for lane, one in datasets.items()},
        )

    def downstream_of(self, is_wanted: Callable[[str], bool]) -> frozenset[str]:
        """
        Return the lanes that read an output of a stream or a dataset, directly or through others.

        A lane is not downstream of itself.

        :param is_wanted: Tells by its name or URI whether a stream or dataset counts.
        """
        return _reached(self.reads, self.writes, is_wanted)

    def upstream_of(self, is_wanted: Callable[[str], bool]) -> frozenset[str]:
        """Return the lanes that feed a stream or write a dataset, as ``downstream_of``."""
        return _reached(self.writes, self.reads, is_wanted)

    def in_order(self) -> list[str]:
        """
        Return the lanes, each after those whose output it reads, directly or through others.

        Lanes that do not need each other are in the order of names, as are those of a circle.
        """
        members = _circles(self._upward())
        circle = {node: names[0] for names in members.values() for node in names}
        above: dict[str, set[str]] = {first: set() for first in members}
        for node, sources in self._upward().items():
            above[circle[node]].update(circle[one] for one in sources)
        sorter = TopologicalSorter({one: found - {one} for one, found in above.items()})
        sorter.prepare()
        found: list[str] = []
        while sorter.is_active():
            ready = sorter.get_ready()
            found += sorted(n for one in ready for n in members[one] if n in self.reads)
            sorter.done(*ready)
        return found

    def _upward(self) -> dict[str, Sequence[str]]:
        """Return the edges from each lane to its inputs, and from each dataset to its writers."""
        writers = _turned(self.writes)
        # Only datasets that a lane writes put lanes in order.
        inputs = {
            lane: [one for one in uris if one in writers] for lane, uris in self.reads.items()
        }
        return {**inputs, **writers}


def _turned(edges: Edges) -> dict[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for lane, uris in edges.items():
        for uri in uris:
            found[uri].append(lane)
    return {**found}


def _reached(into: Edges, out: Edges, is_wanted: Callable[[str], bool]) -> frozenset[str]:
    """Return the lanes that are reached by their datasets ``into``, and pass on to their datasets ``out``."""
    readers = _turned(into)
    origins: dict[str, list[str]] = {}
    waiting = deque[tuple[str, str]]()

    def arrive(nodes: Iterable[str], origin: str) -> None:
        for node in nodes:
            known = origins.setdefault(node, [])
            if origin not in known and len(known) < _ORIGINS:
                known.append(origin)
                waiting.append((node, origin))

    for lane, uris in out.items():
        if is_wanted(base_of(lane)):
            arrive(uris, lane)
    arrive(filter(is_wanted, readers), _DATASET)
    while waiting:
        node, origin = waiting.popleft()
        arrive(out[node] if node in out else readers.get(node, ()), origin)
    return frozenset(lane for lane in out if any(one != lane for one in origins.get(lane, ())))


def _circles(edges: Edges) -> dict[str, list[str]]:
    """Return the nodes that reach each other, sorted, by the first of them; most nodes are alone."""
    seen, back = set[str](), {**dict.fromkeys(edges, ()), **_turned(edges)}
    order = [node for root in edges for node in _walked(root, edges, seen)]
    seen.clear()
    circles = (sorted(_walked(node, back, seen)) for node in reversed(order))
    return {names[0]: names for names in circles if names}


def _walked(root: str, edges: Edges, seen: set[str]) -> list[str]:
    """
    Return the nodes reached from a root and not seen before, each after those that it leads to.

    No recursion: a forged chain is longer than Python's stack.
    """
    found: list[str] = []
    work = [] if root in seen else [(root, iter(edges[root]))]
    seen.add(root)
    while work:
        node, rest = work[-1]
        following = next((one for one in rest if one not in seen), None)
        if following is None:
            work.pop()
            found.append(node)
        else:
            seen.add(following)
            work.append((following, iter(edges[following])))
    return found
