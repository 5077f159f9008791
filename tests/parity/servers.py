"""Servers that tests start themselves, from packages that may be on the machine."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"  # where servers are


def postgres_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URL of a new PostgreSQL server; skip the test where none is installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    folder.chmod(0o755)
    data, sockets = folder / "data", folder / "s"
    sockets.mkdir()
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
        shutil.chown(sockets, "postgres")
    port = free_port()
    _run(programs, "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
    options = f"-p {port} -k {sockets} -c listen_addresses=127.0.0.1 -c fsync=off"
    _run(programs, "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        _run(programs, "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _run(programs: Path, name: str, *arguments: object) -> None:
    command = [str(programs / name), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")


@contextmanager
def mariadb() -> Iterator[str]:
    """Yield the URL of a new MariaDB server; skip the test where none is installed."""
    server, install = (shutil.which(name, path=PATH) for name in ("mariadbd", "mariadb-install-db"))
    if server is None or install is None:
        pytest.skip("MariaDB is not installed: apt-get install mariadb-server")
    folder = Path(tempfile.mkdtemp(prefix="my"))
    data, user = folder / "data", getpass.getuser()
    options = ["--no-defaults", f"--datadir={data}", f"--user={user}"]
    made = [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    port = free_port()
    running = subprocess.Popen(
        [server, *options, f"--socket={folder / 's'}", f"--port={port}", "--bind-address=127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, running)
        yield f"mysql://root@127.0.0.1:{port}/test_rows"
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def object_store() -> Iterator[str]:
    """Yield the address of a new object store in memory; skip the test where moto is not installed."""
    program = Path(sys.prefix, "moto", "bin", "moto_server")  # an environment of its own: it needs older packages
    if not program.exists():
        pytest.skip("moto is not installed: make engines")
    port = free_port()
    command = [str(program), "-H", "127.0.0.1", "-p", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, running)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


@contextmanager
def full_store(address: str, status: int, code: str, limit: Path) -> Iterator[str]:
    """Yield the address of an object store that passes all on to another one, and gets full.

    It takes as many files as the file ``limit`` says, if there is one, and answers further ones with this error.
    """
    port = free_port()
    program = Path(__file__).with_name("full_store.py")
    command = [sys.executable, str(program), str(port), address.removeprefix("http://"), str(status), code, str(limit)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, running)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Yield a new folder that is a disk of this size; skip the test where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by the superuser")
    try:
        yield folder
    finally:  # Java may still hold files of failed writes open, so the disk goes as soon as they are closed
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120.0
    while time.monotonic() < end and running.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")
