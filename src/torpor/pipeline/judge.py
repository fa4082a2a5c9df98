"""The other process in which candidates are timed (see `contest.py`): started, asked, ended."""

from __future__ import annotations

import pickle
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO, Any, Final

from torpor.base.errors import TorporError
from torpor.base.settings import Value
from torpor.device.bulk import receive, send, start

COMMAND: Final = "from torpor.pipeline.contest import serve; serve()"
GONE: Final = (False, None)
POLL: Final = 0.1  # seconds between looks for Ctrl-C, which some systems do not wake a wait for


class Lost(TorporError, RuntimeError):
    """The process crashed, could not be started, or had to be ended since it took too long."""


class Judge:
    """A process that times candidates; started when first asked, and again after it was lost."""

    def __init__(self, settings: Mapping[str, Value]):
        self.settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask(self, patience: float, *request: Any) -> Any:
        """The answer to a request (a name, arguments), or as `Refused` why there is none; `Lost`
        if there is none within `patience` seconds.
        """
        self.tell(*request)
        return self.hear(patience)

    def tell(self, *request: Any) -> None:
        """Send a request; `hear` gives the answer."""
        process = self._started()
        assert process.stdin is not None
        try:
            send(process.stdin, (self.settings, request))
        except OSError as error:
            self.close()
            raise Lost(f"the process that times candidates is gone ({error})") from None

    def hear(self, patience: float) -> Any:
        """The answer to what was sent, as `ask` gives it."""
        reply = self._next(patience)
        if reply is None:
            self.close()
            raise Lost("it took too long")
        if reply is GONE:
            raise Lost(f"it ended its process ({self._status()})")
        fine, value = reply
        if not fine:
            raise Refused(value)
        return value

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                pass

    def _status(self) -> int | None:
        """How the process, which has closed its output, ended."""
        process = self._process
        if process is None:  # another thread has closed it
            return None
        try:
            return process.wait(POLL)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = start(COMMAND)
            except OSError as error:
                raise Lost(f"no process to time candidates can be started: {error}") from None
            self._answers = queue.SimpleQueue()
            reader = threading.Thread(
                target=read_answers,
                args=(self._process.stdout, self._answers),
                name="torpor-judge",
                daemon=True,
            )
            reader.start()
        return self._process

    def _next(self, patience: float) -> tuple[bool, Any] | None:
        """The next answer; None if there is none in time, `GONE` if there are no more."""
        until = time.monotonic() + patience
        while True:
            left = until - time.monotonic()
            try:
                reply: tuple[bool, Any] | None = self._answers.get(
                    timeout=max(0.0, min(POLL, left))
                )
                return reply
            except queue.Empty:
                if left <= 0:
                    return None


class Refused(TorporError, ValueError):
    """What the process was asked for cannot be done; the message says why."""


def read_answers(stream: IO[bytes], answers: queue.SimpleQueue[Any]) -> None:
    """Hand on every answer, and `GONE` when there are no more."""
    while True:
        try:
            answers.put(receive(stream))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            answers.put(GONE)
            return
