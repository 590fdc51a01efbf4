"""
What becomes of a rehearsal whose caller was killed: its driver ends it and removes its folder.

The caller keeps a file of the folder locked for as long as he lives; the system gives the lock up
with him, however he ended. Numbers of processes would not do: they are given again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Final

from airflow_streaming.driver.faults import logger
from airflow_streaming.driver.jvm import JvmProcess

EVERY_SECONDS: Final = 1.0
_PATIENCE: Final = 5.0


def leave_with_caller(held: str, folder: str) -> None:
    """
    Watch the caller from now on; when he is gone, end this process and what belongs to it.

    :param held: The file that he keeps locked.
    :param folder: Removed with everything in it.
    """
    process = JvmProcess()

    def watch() -> None:
        while is_held(Path(held)):
            time.sleep(EVERY_SECONDS)
        logger.error("Whoever ordered this is gone; it ends and removes %s.", folder)
        process.kill()
        process.is_gone_within(_PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="rehearsal-caller", daemon=True).start()


def is_held(path: Path) -> bool:
    """Tell whether somebody keeps a file locked; a file that is gone is held by nobody."""
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
