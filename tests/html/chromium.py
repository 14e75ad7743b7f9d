"""Headless Chromium over a pipe, by its DevTools protocol: windows of any size, real pointers and keys, and what the console says.

Nothing but Python and a browser is needed. https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import subprocess
import time
from pathlib import Path


class Chromium:
    """A browser that reaches no network; `with` ends it."""

    def __init__(self, program, profile):
        to_browser, own_out = os.pipe()
        own_in, from_browser = os.pipe()

        def descriptors():
            # The browser reads commands from 3 and writes answers to 4.
            os.dup2(os.dup(to_browser), 3)
            os.dup2(os.dup(from_browser), 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND", "about:blank"]
        self.process = subprocess.Popen(
            [program, *flags], preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.into = own_out, own_in
        self.rest, self.number, self.console = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("Browser.close")
        self.process.wait(20)

    def _next(self):
        while b"\0" not in self.rest:
            part = os.read(self.into, 1 << 20)
            assert part, "the browser is gone"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        """Sends a command and waits for its answer; what the console says meanwhile is kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message.update({"sessionId": session} if session else {})
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            self._listen(answer)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _listen(self, message):
        kind, params = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            detail = params["exceptionDetails"]
            self.console.append(detail.get("exception", {}).get("description", detail["text"]))
        elif kind == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(value.get("value")) for value in params["args"]))
        elif kind == "Log.entryAdded":
            self.console.append(params["entry"]["text"])

    def page(self, path, width, height, dark):
        """Opens a file in a window of its own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, target, Path(path).resolve().as_uri(), (width, height), dark)


class Page:
    """A page in a window."""

    def __init__(self, browser, session, target, address, size, dark):
        self.browser, self.session, self.target, self.size = browser, session, target, size
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        width, height = size
        is_phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone, maxTouchPoints=2)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        browser.console.clear()
        self.call("Page.navigate", url=address)
        # Until then expressions would still be about the page before.
        self.wait(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def run(self, script):
        """The value of an expression, or what the promise that it is comes to."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, (script[:200], found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, condition, seconds=20):
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"waited in vain for {condition}"
            time.sleep(0.02)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)

    def drag(self, start, end):
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1)
        for part in range(1, 6):
            x, y = (a + (b - a) * part / 5 for a, b in zip(start, end))
            self.mouse("mouseMoved", x, y, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def touch(self, kind, *points):
        points = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    def key(self, key, modifiers=0):
        more = {"text": key} if len(key) == 1 else {}
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        more.update({"windowsVirtualKeyCode": codes[key]} if key in codes else {})
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def picture(self, path, whole=True):
        width, height = self.size
        if whole:
            height = self.run("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(found["data"]))

    def paper(self, path):
        found = self.call("Page.printToPDF", printBackground=True)
        Path(path).write_bytes(base64.b64decode(found["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
