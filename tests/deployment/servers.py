"""The servers of a deployment: each one process group that is started, awaited, stopped and killed."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from demo.processes import kill_group
from demo.waiting import Say, wait_for
from tests.deployment.profiles import (
    DATABASE,
    POSTGRESQL_PROGRAMS,
    Database,
    Ports,
    proxy_conf,
    store_conf,
)

STOP_SECONDS: Final = 20.0


def find_program(name: str) -> str | None:
    """Return the path of a program; wheels lay theirs beside Python, Debian its PostgreSQL beside the path."""
    own = str(Path(sys.executable).parent)
    places = [own, os.environ["PATH"], "/usr/sbin", *sorted(glob.glob(POSTGRESQL_PROGRAMS))]  # noqa: PTH207
    return shutil.which(name, path=os.pathsep.join(places))


def program(name: str) -> str:
    """
    Return the path of a program.

    :raises RuntimeError: it is missing.
    """
    found = find_program(name)
    if found is None:
        raise RuntimeError(f"The program {name!r} is missing.")
    return found


@dataclass
class Server:
    """
    Server of a deployment.

    :param command: Stays in the foreground.
    :param is_ready: Tells whether it answers.
    :param user: Runs it instead of root; PostgreSQL and MariaDB refuse root.
    :param ending: Signal of an orderly stop.
    """

    name: str
    command: Sequence[str]
    log: Path
    is_ready: Callable[[], bool]
    user: str | None = None
    ending: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; its output goes to its log."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **as_user(self.user),
            )

    def ready(self, say: Say) -> None:
        """
        Wait until it answers.

        :raises RuntimeError: it ended, or did not answer in time; names its log.
        """
        wait_for(self.is_ready, what=self.name, say=say, failing=self.ended, every=0.2)

    def ended(self) -> str | None:
        """Return that it has ended without being stopped."""
        if self.process is None or self.process.poll() is None:
            return None
        return f"{self.name} ended with code {self.process.returncode}; see {self.log}."

    def stop(self) -> None:
        """End it in order; kill its group after a while."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(self.ending)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill its process group."""
        if self.process is not None:
            kill_group(self.process.pid)
            self.process.wait()
            self.process = None


def as_user(user: str | None) -> dict[str, str]:
    """Return the arguments that let root start a process as a user; nothing for any other user."""
    return {"user": user, "group": user, "cwd": "/"} if user and os.getuid() == 0 else {}


def listens(port: int) -> bool:
    """Tell whether something listens on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def own_user(name: str) -> str | None:
    """
    Return the user that runs a server in place of root, ``None`` where root does not start it.

    :raises RuntimeError: root starts it and the machine has no such user.
    """
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        raise RuntimeError(
            f"The user {name!r} is missing. Debian's server package makes it; or run this as a user."
        ) from None


def database(kind: Database, folder: Path, logs: Path, port: int) -> Server:
    """Return the database server, with an empty database for Airflow when it is ready."""
    return {Database.POSTGRESQL: postgresql, Database.MARIADB: mariadb}[kind](folder, logs, port)


def postgresql(folder: Path, logs: Path, port: int) -> Server:
    """Make a cluster in an empty folder, and return its server."""
    user = own_user("postgres")
    _give(folder, user)
    data = folder / "data"
    initdb = [program("initdb"), "-D", str(data), "-A", "trust", "-U", "airflow", "--no-sync"]
    _run([*initdb, "-E", "UTF8", "--locale=C"], user)
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": folder,
        "max_connections": 200,
        "synchronous_commit": "off",
    }
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    psql = [program("psql"), "-h", "127.0.0.1", "-p", str(port), "-U", "airflow", "-d", "postgres"]

    def is_ready() -> bool:
        made = f"SELECT 'CREATE DATABASE {DATABASE}' WHERE NOT EXISTS "
        made += f"(SELECT FROM pg_database WHERE datname = '{DATABASE}')\\gexec\n"
        return _succeeds(psql, made)

    return Server(
        name="PostgreSQL",
        command=[program("postgres"), "-D", str(data), *options],
        log=logs / "postgresql.log",
        is_ready=is_ready,
        user=user,
        # A "fast" stop: sessions are cut off.
        ending=signal.SIGINT,
    )


def mariadb(folder: Path, logs: Path, port: int) -> Server:
    """Make a data folder, and return its server."""
    user = own_user("mysql")
    _give(folder, user)
    data, own = folder / "data", folder / "socket"
    plain = ["--no-defaults", f"--datadir={data}"]
    _run([program("mariadb-install-db"), *plain, "--auth-root-authentication-method=normal"], user)
    server = [program("mariadbd"), *plain, f"--socket={own}", f"--port={port}"]
    client = [program("mariadb"), "--no-defaults", f"--socket={own}", "-u", "root"]
    made = (
        f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;"
        "CREATE USER IF NOT EXISTS airflow@'%' IDENTIFIED BY 'airflow';"
        "CREATE USER IF NOT EXISTS airflow@localhost IDENTIFIED BY 'airflow';"
        "GRANT ALL ON *.* TO airflow@'%'; GRANT ALL ON *.* TO airflow@localhost;"
    )
    return Server(
        name="MariaDB",
        command=[*server, "--bind-address=127.0.0.1", "--explicit-defaults-for-timestamp=1"],
        log=logs / "mariadb.log",
        is_ready=lambda: _succeeds(client, made),
        user=user,
    )


def redis(folder: Path, logs: Path, port: int) -> Server:
    """Return a Redis that keeps its queues over a restart."""
    folder.mkdir(parents=True)
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    return Server(
        name="Redis",
        command=[program("redis-server"), *options, "--save", "", "--appendonly", "yes"],
        log=logs / "redis.log",
        is_ready=lambda: listens(port),
    )


def proxy(folder: Path, logs: Path, ports: Ports) -> Server:
    """Return nginx before the API servers."""
    return _nginx("nginx", folder, logs, proxy_conf(ports, str(folder)), ports.page)


def store_proxy(folder: Path, logs: Path, port: int, behind: int) -> Server:
    """Return nginx before the store, with ``requests.log`` in its folder."""
    return _nginx("nginx-store", folder, logs, store_conf(port, behind, str(folder)), port)


def _nginx(name: str, folder: Path, logs: Path, text: str, port: int) -> Server:
    folder.mkdir(parents=True)
    conf = folder / "nginx.conf"
    conf.write_text(text)
    return Server(
        name=name,
        command=[program("nginx"), "-p", str(folder), "-c", str(conf), "-e", str(folder / "e.log")],
        log=logs / f"{name}.log",
        is_ready=lambda: listens(port),
    )


@contextlib.contextmanager
def running(servers: Iterable[Server], say: Say) -> Iterator[None]:
    """Start servers one after the other, and stop them in reverse."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
            server.start()
            server.ready(say)
        yield


def _give(folder: Path, user: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if user is not None:
        shutil.chown(folder, user, user)


def _run(command: Sequence[str], user: str | None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **as_user(user))
    if done.returncode != 0:
        raise RuntimeError(
            f"{Path(command[0]).name} failed: {(done.stderr or done.stdout)[-1000:]}"
        )


def _succeeds(command: Sequence[str], text: str) -> bool:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=30
    )
    return done.returncode == 0
