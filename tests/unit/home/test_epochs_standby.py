from __future__ import annotations

from dataclasses import replace

from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.names import Layout
from airflow_streaming.model.records.epoch import (
    Barrier,
    OrderAct,
    QueryClaim,
    StandbyAnswer,
    StandbyOrder,
)
from tests.unit.supervision.builders import NOW

LAYOUT = Layout("orders")
ORDER = StandbyOrder(epoch=4, number=1, act=OrderAct.ABSORB, at=NOW, by="kim", absorb={"q": 7})


def test_an_order_that_is_given_twice_is_given_once(stream: StreamHome) -> None:
    other = replace(ORDER, act=OrderAct.RELEASE, by="sam")
    assert stream.give_order(ORDER) == ORDER
    assert stream.give_order(other) == ORDER
    assert stream.give_order(replace(other, number=2)).act is OrderAct.RELEASE
    assert stream.orders(4) == [ORDER, replace(other, number=2)]
    assert stream.orders(5) == []


def test_what_the_driver_writes_beside_its_orders_is_read(stream: StreamHome) -> None:
    assert (stream.barrier(4), stream.answer(4, 1)) == (None, None)
    stream.give_order(ORDER)
    answer = StandbyAnswer(epoch=4, number=1, at=NOW, committed={"q": 7})
    barrier = Barrier(epoch=4, queries=("q",), at=NOW)
    stream.store.create(LAYOUT.place(StandbyAnswer, epoch=4, number=1), LAYOUT.bytes_of(answer))
    stream.store.replace(LAYOUT.place(Barrier, epoch=4), LAYOUT.bytes_of(barrier))
    assert (stream.barrier(4), stream.answer(4, 1)) == (barrier, answer)
    assert stream.orders(4) == [ORDER], "an answer is no order"


def test_the_shift_of_batch_ids_belongs_to_the_query_wherever_its_checkpoint_lies(
    stream: StreamHome,
) -> None:
    first = QueryClaim(query="q", query_id="id-1", checkpoint="file:/c/1/q", epoch=1)
    stream.add_claim(1, first)
    stream.add_claim(2, replace(first, batch_shift=40))
    stream.add_claim(3, replace(first, query_id="id-2", batch_shift=7))
    assert [stream.batch_shift(query_id) for query_id in ("id-1", "id-2", "id-3")] == [40, 7, 0]
