"""
The caller of a short Spark job: its process keeps a file locked for as long as it lives.

A job whose caller was killed would read on and keep its files with secrets, so it ends as well.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from airflow_streaming.driver.errors import logger
from airflow_streaming.driver.jvm import JvmProcess

EVERY_SECONDS: Final = 1.0
_PATIENCE: Final = 5.0
_exiting: Final = threading.RLock()
"""Held from the first step of an exit on: a process that ended before it has killed its JVM would leave it frozen."""
_is_hosted = False
"""Another process of the same job watches the caller."""


def leave_watching_to_host() -> None:
    """Have ``leave_with_caller`` do nothing in this process, because its host watches the caller."""
    global _is_hosted
    _is_hosted = True


def leave_with_caller(
    held: str, folder: str, *, end_jobs: Callable[[], None] = lambda: None
) -> None:
    """
    Watch the caller from now on; when its process is gone, end this one and its JVM.

    :param held: The file that the caller keeps locked; empty without a caller to watch.
    :param folder: Removed with everything in it.
    :param end_jobs: Ends the processes that this one has started and that write into the folder.
    """
    if not held or _is_hosted:
        return
    process = JvmProcess()

    def watch() -> None:
        while is_held(Path(held)):
            time.sleep(EVERY_SECONDS)
        with _exiting:
            logger.error("Parent process is gone; removing %s and exiting.", folder)
            # In a namespace of its own this process ends with the JVM, so the files go before it.
            process.freeze()
            end_jobs()
            shutil.rmtree(folder, ignore_errors=True)
            process.kill()
            process.is_gone_within(_PATIENCE)
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(1)

    atexit.register(_exiting.acquire)
    threading.Thread(target=watch, name="caller-watch", daemon=True).start()


def exit_process(code: int) -> NoReturn:
    """End this process at once, or with the JVM that ``leave_with_caller`` has frozen."""
    with _exiting:
        os._exit(code)


def is_held(path: Path) -> bool:
    """Tell whether a process keeps a file locked; a file that is gone is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
