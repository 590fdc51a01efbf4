"""Which streams feed which others, and their order."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Mapping

import pytest

from airflow_streaming.model.products.datasets import DatasetName, StreamDatasets
from airflow_streaming.model.products.stream_graph import StreamGraph

SHAPES: Mapping[str, tuple[str, ...]] = {
    # A letter each: the stream, the datasets that it reads, those that it writes.
    "alone": ("a::",),
    "chain": ("a:0:1", "b:1:2", "c:2:3"),
    "diamond": ("a:0:1", "b:1:2", "c:1:3", "d:23:4"),
    "two writers of one": ("a:0:2", "b:1:2", "c:2:3"),
    "its own output": ("a:01:1", "b:1:2"),
    "circle": ("a:2:1", "b:1:2"),
    "circle of three in front": ("d:1:9", "a:3:1", "b:1:2", "c:2:3"),
    "a circle feeds a circle": ("z:2:1", "y:1:2", "b:25:4", "a:4:5"),
}


def graph(shape: tuple[str, ...]) -> StreamGraph:
    names = [one.split(":") for one in shape]
    return StreamGraph(
        reads={lane: [f"file:///{one}" for one in read] for lane, read, _ in names},
        writes={lane: [f"file:///{one}" for one in written] for lane, _, written in names},
    )


def closure(of: StreamGraph) -> dict[str, set[str]]:
    """Return all lanes upstream of each lane, by the definition."""
    feeds = {
        lane: {one for one in of.reads if {*of.writes[one]} & {*of.reads[lane]}}
        for lane in of.reads
    }
    for _ in of.reads:
        feeds = {lane: above.union(*(feeds[one] for one in above)) for lane, above in feeds.items()}
    return feeds


def random_graph(seed: int) -> StreamGraph:
    chance = random.Random(seed)
    lanes, uris = "abcdefg"[: chance.randint(1, 7)], [f"file:///{n}" for n in range(5)]
    reads, writes = (
        {lane: chance.sample(uris, chance.randint(0, 2)) for lane in lanes} for _ in range(2)
    )
    return StreamGraph(reads=reads, writes=writes)


GRAPHS = [pytest.param(graph(shape), id=name) for name, shape in SHAPES.items()]
GRAPHS += [pytest.param(random_graph(seed), id=f"seed {seed}") for seed in range(200)]


@pytest.mark.parametrize("of", GRAPHS)
def test_streams_are_reached_through_others(of: StreamGraph) -> None:
    above = closure(of)
    for wanted in ({one} for one in of.reads):
        below = {lane for lane in of.reads if (above[lane] & wanted) - {lane}}
        assert of.downstream_of(wanted.__contains__) == below
        upper = {lane for one in wanted for lane in above[one]} - wanted
        assert of.upstream_of(wanted.__contains__) == upper
    for uri in (f"file:///{number}" for number in range(5)):
        readers = {lane for lane in of.reads if uri in of.reads[lane]}
        writers = {lane for lane in of.reads if uri in of.writes[lane]}
        below = {lane for lane in of.reads if {lane, *above[lane]} & readers}
        upper = writers.union(*(above[one] for one in writers))
        assert of.downstream_of(uri.__eq__) == below
        assert of.upstream_of(uri.__eq__) == upper


@pytest.mark.parametrize("of", GRAPHS)
def test_several_wanted_streams_are_downstream_of_each_other(of: StreamGraph) -> None:
    above = closure(of)

    assert of.downstream_of("abc".__contains__) == {
        lane for lane in of.reads if (above[lane] & {*"abc"}) - {lane}
    }


@pytest.mark.parametrize("of", GRAPHS)
def test_a_stream_comes_after_those_that_feed_it(of: StreamGraph) -> None:
    above, order = closure(of), of.in_order()

    assert sorted(order) == sorted(of.reads)
    for at, lane in enumerate(order):
        circle = {one for one in above[lane] if lane in above[one]}
        assert above[lane] - circle - {lane} <= {*order[:at]}


def test_streams_that_do_not_need_each_other_are_in_the_order_of_names() -> None:
    of = graph(("b:0:1", "c:0:3", "z::", "a:1:2", "y:8:7", "x:7:8"))

    assert of.in_order() == ["b", "c", "x", "y", "z", "a"]


def test_a_long_chain_takes_little_memory() -> None:
    names = [DatasetName("file", f"/{number}") for number in range(2_001)]
    streams = {
        f"s{number:05d}": StreamDatasets(inputs=(names[number],), outputs=(names[number + 1],))
        for number in range(2_000)
    }
    lanes = sorted(streams)
    tracemalloc.start()
    of = StreamGraph.of(dict(reversed([*streams.items()])))
    order, below = of.in_order(), of.downstream_of("s00000".__eq__)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert order == lanes
    assert below == {*lanes[1:]}
    assert peak < 8_000_000


def test_many_writers_and_readers_of_one_dataset_are_as_many_edges() -> None:
    shared = (DatasetName("file", "/in"),)
    streams = {f"w{number}": StreamDatasets(outputs=shared) for number in range(3_000)}
    streams |= {f"r{number}": StreamDatasets(inputs=shared) for number in range(3_000)}
    of = StreamGraph.of(streams)

    assert of.in_order()[:3_000] == sorted(lane for lane in streams if lane[0] == "w")
    assert len(of.downstream_of("w7".__eq__)) == 3_000
