"""Two browsers that use the forms and links of pages: one that only parses HTML, and Chromium through its driver.

Both have `open(address)`, `fill(name, text)`, `press(text)` (a button or a link), `text()`, `address`, and `picture(path)`.
"""

import base64
import contextlib
import html.parser
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from local import Failed


class Pages(html.parser.HTMLParser):
    """A parsed page: its forms with their fields and buttons, its links, and its text."""

    def __init__(self, text):
        super().__init__()
        self.forms, self.links, self.words, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form":
            self.forms.append({"action": given.get("action", ""), "method": given.get("method", "get"), "fields": {}, "buttons": []})
        elif tag == "input" and self.forms and given.get("name"):
            if given.get("type") not in ("radio", "checkbox") or "checked" in given:
                self.forms[-1]["fields"][given["name"]] = given.get("value", "")
        elif tag == "button" and self.forms:
            self.inside = ("button", self.forms[-1])
        elif tag == "a":
            self.inside = ("a", given.get("href", ""))
        elif tag == "style":
            self.inside = ("style", None)

    def handle_endtag(self, tag):
        if self.inside and self.inside[0] == tag:
            self.inside = None

    def handle_data(self, data):
        kind, of = self.inside or (None, None)
        if kind == "style" or not data.strip():
            return
        self.words.append(data.strip())
        if kind == "button":
            of["buttons"].append(data.strip())
        elif kind == "a":
            self.links.append((data.strip(), of))


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Plain:
    """Parses HTML only. `press(…, follow=False)` returns the address of a redirect without following it."""

    def __init__(self):
        self.address, self.page = "", Pages("")
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay())

    def open(self, address):
        self.go(address, None, True)

    def go(self, address, data, follow):
        for _ in range(5):
            try:
                answer = self.opener.open(urllib.request.Request(address, data), timeout=60)
            except urllib.error.HTTPError as error:
                answer = error
            to = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307) or not to:
                self.address, self.page = address, Pages(answer.read().decode())
                return address
            address, data = urllib.parse.urljoin(address, to), None
            if not follow:
                return address
        raise Failed(f"{address} leads in circles")

    def fill(self, name, text):
        for form in self.page.forms:
            if name in form["fields"]:
                form["fields"][name] = text
                return
        raise Failed(f"{self.address} has no field {name}: {self.text()}")

    def press(self, text, follow=True):
        for form in self.page.forms:
            if text in form["buttons"]:
                action = urllib.parse.urljoin(self.address, form["action"])
                fields = urllib.parse.urlencode(form["fields"]).encode()
                return self.go(action, fields, follow)
        for words, to in self.page.links:
            if words == text:
                return self.go(urllib.parse.urljoin(self.address, to), None, follow)
        raise Failed(f"{self.address} has no {text!r}: {self.text()}")

    def text(self):
        return " ".join(self.page.words)

    def picture(self, path):
        pass

    def close(self):
        pass


class Chromium:
    """Uses the WebDriver protocol of Debian's chromium-driver, with a new profile that is deleted with it."""

    OPTIONS = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=900,700",
    )

    @staticmethod
    def is_here():
        return bool(shutil.which("chromium") and shutil.which("chromedriver"))

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.base = f"http://127.0.0.1:{port}"
        self.profile = tempfile.mkdtemp()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.wait_for_driver()
        arguments = [*self.OPTIONS, f"--user-data-dir={self.profile}"]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self.session = self.call("POST", "/session", wanted)["sessionId"]

    def wait_for_driver(self):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.call("GET", "/status")
                return
            time.sleep(0.1)
        raise Failed("chromedriver does not answer")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=90) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(f"chromium: {error.read().decode()[:400]}") from None

    def of_session(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, address):
        self.of_session("POST", "/url", {"url": address})

    def element(self, path):
        try:
            found = self.of_session("POST", "/element", {"using": "xpath", "value": path})
        except Failed:
            raise Failed(f"{self.address} has no {path}: {self.text()}") from None
        return next(iter(found.values()))

    def fill(self, name, text):
        field = self.element(f"//input[@name='{name}']")
        self.of_session("POST", f"/element/{field}/clear", {})
        self.of_session("POST", f"/element/{field}/value", {"text": text})

    def press(self, text):
        button = self.element(f"//button[normalize-space()='{text}']|//a[normalize-space()='{text}']")
        self.of_session("POST", f"/element/{button}/click", {})
        return self.address

    @property
    def address(self):
        return self.of_session("GET", "/url")

    def text(self):
        body = self.of_session("POST", "/element", {"using": "css selector", "value": "body"})
        return self.of_session("GET", f"/element/{next(iter(body.values()))}/text")

    def picture(self, path):
        shot = self.of_session("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(shot))

    def close(self):
        with contextlib.suppress(Failed, OSError):
            self.of_session("DELETE", "")
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
