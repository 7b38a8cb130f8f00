"""Headless Chromium for tests, spoken to over a pair of pipes: no driver, no extra package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CANDIDATES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # which a container without privileges cannot have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
    "--force-color-profile=srgb",
)
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))"
PATIENCE = 120.0  # seconds without any answer after which the browser is taken for dead


def find_chromium():
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, CANDIDATES)), None)


class Browser:
    """A running browser with one page at a time."""

    def __init__(self, executable):
        self.profile = tempfile.TemporaryDirectory(prefix="bopl-chromium-", ignore_cleanup_errors=True)
        to_browser, self._to_browser = os.pipe()
        self._from_browser, from_browser = os.pipe()
        # The browser reads commands from file descriptor 3 and answers on 4.
        command = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        flags = [*FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", executable, *flags],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.events, self._buffer, self._last_id = [], b"", 0
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, session="page", **params):
        """Send a command and wait for its answer; events on the way are kept."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session == "page":
            message["sessionId"] = self.session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _read(self):
        while b"\0" not in self._buffer:
            if not select.select([self._from_browser], [], [], PATIENCE)[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self._from_browser, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, *, width=1280, height=900, dark=False):
        """Load a file, or a page of a server of this machine, and wait until its charts are drawn."""
        self.events.clear()
        self._opened = path if str(path).startswith("http://127.0.0.1:") else "file://"
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=f"file://{path}" if self._opened == "file://" else path)
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            time.sleep(0.02)
        self.settle()

    def resize(self, width, height=900):
        """Give the page another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def settle(self):
        """Wait until what was asked for has been drawn: two frames."""
        self.evaluate(TWO_FRAMES)

    def evaluate(self, expression):
        """Return what JavaScript makes of an expression; its exceptions are raised here."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def mouse(self, kind, x, y):
        """Move, press or release the mouse."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=1, clickCount=1)

    def complaints(self):
        """Return what went wrong on the page since it was opened: exceptions, errors, requests to anywhere."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str([argument.get("value") for argument in params["args"]]))
            elif method == "Log.entryAdded":
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(self._opened):
                found.append(f"request to {params['request']['url']}")
        return found

    def screenshot(self, path, *, full=True):
        """Write a picture of the page."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

    def page_height(self):
        """Return the height of the whole page."""
        return self.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)")

    def close(self):
        """End the browser that was started here."""
        try:
            self.call("Browser.close", session=None)
        except (RuntimeError, TimeoutError, BrokenPipeError):
            self.process.kill()
        self.process.wait(timeout=30)
        for pipe in (self._to_browser, self._from_browser):
            os.close(pipe)
        self.profile.cleanup()
