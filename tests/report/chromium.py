"""Drive a real Chromium over its DevTools pipe: two file descriptors, JSON, no further package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 90.0  # seconds; a shared machine may be slow


def find_chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one page.

    Chromium reads commands from descriptor 3 and writes answers to 4, each ended by a zero byte.
    """

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        commands, self._in = os.pipe()
        self._out, answers = os.pipe()
        flags = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
            *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"),
            *("--disable-background-networking", "--no-first-run", "--disable-extensions"),
            f"--user-data-dir={self._profile.name}",
        ]
        # The shell gives the pipes the numbers that Chromium expects.
        line = f'exec "$@" 3<&{commands} 4>&{answers} 2>/dev/null'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", program, *flags, "about:blank"],
            pass_fds=(commands, answers),
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._session = self._attach()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _attach(self) -> str:
        self._session = ""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            targets = self.call("Target.getTargets")["targetInfos"]
            pages = [target["targetId"] for target in targets if target["type"] == "page"]
            if pages:
                asked = {"targetId": pages[0], "flatten": True}
                return str(self.call("Target.attachToTarget", **asked)["sessionId"])
        raise TimeoutError("Chromium opened no page.")

    def close(self) -> None:
        """Close the browser and forget its profile."""
        try:
            self._session = ""
            self.call("Browser.close")
            self._process.wait(20)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._in)
            os.close(self._out)
            self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._in, content) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer.")
            piece = os.read(self._out, 1 << 20)
            if not piece:
                raise OSError("Chromium has gone.")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def resize(self, width: int, height: int = 900, *, phone: bool = False) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def media(self, *, dark: bool = False, kind: str = "") -> None:
        """Prefer light or dark, or show the page as in print."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def open(self, page: Path) -> None:
        """Open a file and wait until its script has drawn everything."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        self.wait("document.documentElement?.dataset.ready === 'true'")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition} did not become true: {self.complaints()}")
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", **asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Return errors and warnings that the page caused so far."""
        self.run("0")  # lets events arrive
        found = []
        for event in self.events:
            method, about = event.get("method", ""), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(about["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(json.dumps(about["args"]))
            elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Return every address that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def choose(self, select_id: str, value: str) -> None:
        """Choose an option of a select as a reader does."""
        self.run(
            f"(() => {{ const s = document.getElementById({json.dumps(select_id)});"
            f"s.value = {json.dumps(value)};"
            "s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        file.parent.mkdir(parents=True, exist_ok=True)
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def print(self, file: Path) -> bytes:
        """Print the page as PDF."""
        file.parent.mkdir(parents=True, exist_ok=True)
        answer = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        content = base64.b64decode(answer["data"])
        file.write_bytes(content)
        return content
