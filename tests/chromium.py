"""A headless Chromium that tests drive by its debugging pipe; Debian's, none is downloaded."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

COMMAND = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDED = pytest.mark.skipif(COMMAND is None, reason="there is no chromium")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--mute-audio",
)  # fmt: skip
# It reads commands from descriptor 3 and writes answers to descriptor 4.
LAUNCH = """import os, sys
pipes = [os.dup2(int(given), 100 + at) for at, given in enumerate(sys.argv[1:3])]
for at, pipe in enumerate(pipes):
    os.dup2(pipe, 3 + at)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Tab": 9}


class Chromium:
    """One page. What its scripts or its network complain of is in `complaints`."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        size = f"--window-size={width},{height}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_read), str(to_write), COMMAND, *FLAGS, size,
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._numbers, self._buffer, self.complaints, self.asked = itertools.count(1), b"", [], []
        self._session = None
        target = next(
            t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        request = {"targetId": target["targetId"], "flatten": True}
        self._session = self.send("Target.attachToTarget", **request)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.resize(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AssertionError):
            os.write(self._write, b'{"id":0,"method":"Browser.close"}\0')
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self.profile.cleanup()

    def _next(self, patience):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], patience)
            assert ready, "Chromium does not answer"
            piece = os.read(self._read, 1 << 16)
            assert piece, "Chromium has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def send(self, method, **parameters):
        """The result of a command of the debugging protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(60)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._hear(answer)

    def _hear(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", str(details)))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])

    def resize(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def open(self, address):
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address.partition('#')[0])})")
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script):
        """The value of an expression."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (script, found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, script, patience=20):
        """The value of an expression as soon as it is true."""
        until = time.monotonic() + patience
        while not (value := self.evaluate(script)):
            assert time.monotonic() < until, (script, self.complaints, self.text("body")[:2000])
            time.sleep(0.03)
        return value

    def shown(self, selector):
        """Wait until a selector finds something."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})")

    def text(self, selector):
        """The text of the first element that a selector finds; waits for it."""
        find = f"document.querySelector({json.dumps(selector)})"
        if selector != "body":
            self.wait(f"!!{find}")
        return self.evaluate(f"{find}.innerText")

    def texts(self, selector):
        """The texts of all elements that a selector finds now."""
        every = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.evaluate(f"{every}.map((one) => one.textContent)")

    def click(self, selector):
        """Click an element as a mouse does; waits for it."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{find}")
        self.evaluate(f"{find}.scrollIntoView({{block: 'center'}})")
        box = self.evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"({find}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                      clickCount=1)  # fmt: skip

    def press(self, key):
        """Press a key."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        code = KEYS.get(key) or ord(key.upper())
        for kind in ("keyDown", "keyUp"):
            given = text if kind == "keyDown" else {}
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **given
            )

    def fill(self, selector, text):
        """Have a field hold a text, as if it had been typed."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{find}")
        self.evaluate(f"{find}.focus(), {find}.select(), true")
        self.send("Input.insertText", text=text)

    def screenshot(self, path):
        """A picture of what is seen."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))
