from __future__ import annotations

from airflow_streaming.driver.exit_status import FAILURE_GRACE, ShutdownState, Stop
from airflow_streaming.exceptions import DriverRefusal

NO = DriverRefusal("No.")
STOP = Stop(by="ann", reason="Enough.", grace=7)


def test_the_first_word_stands() -> None:
    ending = ShutdownState()
    assert ending.ask_stop(STOP)
    assert not ending.ask_stop(Stop(by="bob", reason="Me too.", grace=1))
    assert not ending.fail()
    ending.refuse(NO)
    assert (ending.stop, ending.refusal, ending.grace) == (STOP, None, 7)


def test_a_refusal_begins_the_end_and_only_the_first_is_told() -> None:
    ending = ShutdownState()
    ending.refuse(NO)
    ending.refuse(DriverRefusal("No again."))
    assert ending.begun.is_set()
    assert not ending.ask_stop(STOP)
    assert (ending.stop, ending.refusal, ending.grace) == (None, NO, FAILURE_GRACE)
