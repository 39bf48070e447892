"""Chromium in a namespace, driven by its debugging protocol over two pipes: a real browser for the pages of the coordinator."""

import base64
import json
import os
import select
import subprocess
import time

from .wait import PATIENCE_S, LabError

# Descriptors of a program that is started with --remote-debugging-pipe: it reads requests from 3 and writes answers to 4, each ended by a zero byte.
_REQUESTS, _ANSWERS = 3, 4


class Browser:
    """A browser with one page."""

    def __init__(self, host):
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        profile = host.state / "browser"
        words = (
            "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe "
            f"--user-data-dir={profile} --window-size=900,900 about:blank {_REQUESTS}<&{theirs_in} {_ANSWERS}>&{theirs_out}"
        )
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", host.namespace, "bash", "-c", words],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in, self._rest, self._number, self._session = ours_out, ours_in, b"", 0, None
        try:
            targets = self._ask("Target.getTargets")["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
            self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
            self._ask("Page.enable")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._out)
        os.close(self._in)

    def open(self, url):
        """Opens a page, and waits until it has loaded."""
        self._ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def evaluate(self, script):
        """Runs a script in the page, and returns its result."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise LabError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script):
        """Waits until a script returns a true value; returns it."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.evaluate(script)):
            if time.monotonic() > end:
                raise LabError(f"waited {PATIENCE_S:.0f} s in vain for: {script}\n{self.text()}")
            time.sleep(0.05)
        return value

    def fill(self, **fields):
        """Types into fields of the page, by their ids."""
        for field, text in fields.items():
            self.evaluate(f"document.getElementById({json.dumps(field)}).value = {json.dumps(text)}")

    def press(self, selector):
        """Presses a button."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def text(self):
        """Returns what a person reads on the page."""
        return self.evaluate("document.body.innerText")

    def picture(self, path):
        """Writes a picture of the page."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    def _ask(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._read())
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise LabError(f"{method}: {answer['error']}")
            return answer["result"]

    def _read(self):
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            piece = os.read(self._in, 1 << 16) if ready else b""
            if not piece:
                raise LabError("the browser does not answer, or has ended")
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return message
