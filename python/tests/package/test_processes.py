"""Two processes of four devices each compute what one device does."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("worker.py")
PROCESSES = 2
SECONDS = 300
CHECKS = [
    "one mesh",
    "two stages",
    "four stages",
    "stages over processes",
    "stages of different sizes",
    "checkpoints",
    "init",
    "disagreement",
    "failure",
]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What every process printed. They run once for all checks, since starting takes long."""
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = [folder / f"{process}.log" for process in range(PROCESSES)]
    started = []
    for process, log in enumerate(logs):
        words = [sys.executable, str(WORKER), str(port), str(process), str(folder)]
        with log.open("w") as out:
            started.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT))
    try:
        for process in started:
            process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [log.read_text() for log in logs]


@pytest.mark.parametrize("check", CHECKS)
def test_processes_work_as_one(said, check):
    for text in said:
        assert f"passed {check}\n" in text, text[-4000:]
