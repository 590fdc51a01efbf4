"""From the command line to a running driver, or to a sentence that says why not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow_streaming.core.epoch import Exit
from airflow_streaming.core.names import Layout
from airflow_streaming.driver.drive import Driver
from airflow_streaming.driver.faults import log_to_stderr, logger
from airflow_streaming.driver.fence import FENCED_CODE
from airflow_streaming.driver.hadoop import open_home
from airflow_streaming.driver.last_word import LastWord
from airflow_streaming.driver.order import (
    Order,
    check_newest,
    forget_properties,
    read_assignment,
    read_epoch,
)
from airflow_streaming.driver.outcome import FAILED_CODE, REFUSED_CODE, fenced, refused
from airflow_streaming.exceptions import (
    DriverRefusal,
    FencedError,
    HomeUnavailable,
    RecordError,
    SpecError,
)
from airflow_streaming.files.store import Store


def run(arguments: Sequence[str]) -> int:
    """Run the driver that the command line names and return the exit code."""
    log_to_stderr()
    order = Order.parse(arguments)
    forget_properties(order.properties_file)
    try:
        layout = Layout(order.stream)
        store = open_home(order.home)
        epoch = read_epoch(store, layout, order)
    except HomeUnavailable as err:
        return _leave(str(err), FAILED_CODE)
    except (DriverRefusal, RecordError, SpecError) as err:
        return _leave(str(err), REFUSED_CODE)
    now = datetime.now(UTC)
    try:
        check_newest(store, layout, epoch.number)
        assignment = read_assignment(store, layout, order, epoch)
    except HomeUnavailable as err:
        return _leave(str(err), FAILED_CODE)
    except FencedError as err:
        _record(store, layout, fenced(epoch.number, now))
        return _leave(str(err), FENCED_CODE)
    except (DriverRefusal, RecordError) as err:
        _record(store, layout, refused(epoch.number, now, str(err)))
        return _leave(str(err), REFUSED_CODE)
    return Driver(assignment, store, layout).run()


def _record(store: Store, layout: Layout, exit: Exit) -> None:
    LastWord(store, layout.epoch(exit.epoch, "exit.json")).say(exit)


def _leave(sentence: str, code: int) -> int:
    logger.error("%s", sentence)
    return code
