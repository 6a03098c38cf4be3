"""`muster ui` in a browser: axe's findings, elements wider than the screen, the keyboard, pages without scripts, orders.

Screenshots land in SCREENSHOTS, if that is set.
"""

import contextlib
import http.server
import os
import pathlib
import tempfile
import threading
import unittest

from axe_playwright_python.sync_playwright import Axe

import function
import pages

WIDTHS = (1280, 768, 375)
SCHEMES = ("light", "dark")
MACHINE = "default-4kq7v2-0-3"
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job": "/jobs/447080002/984223540003",
    "job-over": "/jobs/447080002/7",
    "machines": "/machines",
    "orphans": "/machines?state=orphan",
    "machine": f"/machines/{MACHINE}",
    "pools": "/pools",
    "pool": "/pools/gpu",
    "costs": "/costs",
    "costs-by-pool": "/costs?since=7d&by=pool",
    "audit": "/audit",
    "github": "/github",
    "dead-letters": "/dead-letters",
    "letters": "/dead-letters/jobs",
    "pause": "/confirm/pause?what=launches",
    "force": f"/confirm/force?name={MACHINE}",
    "restore": "/confirm/restore?version=1",
    "redrive": "/confirm/redrive?queue=jobs",
    "adopt": "/confirm/adopt?repository=acme/web",
    "hook-test": "/confirm/hook?what=test",
    "hook-remove": "/confirm/hook?what=remove",
    "canary": "/confirm/canary?pool=small&entity=acme",
}
SCREENSHOTS = os.environ.get("SCREENSHOTS")
# Findings that would prevent people from using a page.
GRAVE = {"serious", "critical"}


class Ui(unittest.TestCase):
    """Starts one command and one browser for all tests of a class."""

    hostile = False
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.stack = function.Stack(hostile=cls.hostile)
        cls.left = contextlib.ExitStack()
        cls.addClassCleanup(cls.left.close)
        entry, _ = cls.left.enter_context(pages.muster(function.serve(cls.stack), *cls.flags))
        cls.browser = cls.left.enter_context(pages.browser())
        context = cls.browser.new_context()
        page = context.new_page()
        # The command opens a file that redirects to the address.
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "open.html"
            file.write_text(f'<meta http-equiv="refresh" content="0; url={entry}">')
            page.goto(file.as_uri())
            page.get_by_role("heading", name="Overview").wait_for()
        cls.base = page.url.rstrip("/")
        cls.cookie = context.storage_state()
        context.close()

    @contextlib.contextmanager
    def page(self, width=1280, scheme="light", **more):
        """Yields a page, and fails if it logs errors or warnings."""
        context = self.browser.new_context(
            storage_state=self.cookie, viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        page = context.new_page()
        complaints = []
        page.on("console", lambda told: complaints.append(told.text) if told.type in ("error", "warning") and "status of 422" not in told.text else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        yield page
        self.assertEqual(complaints, [])
        context.close()

    def open(self, page, path):
        answer = page.goto(self.base + path)
        self.assertEqual(answer.status, 200, path)


class Looks(Ui):
    def test_each_page_fits_and_can_be_used_by_everybody(self):
        for scheme in SCHEMES:
            for width in WIDTHS:
                with self.page(width, scheme) as page:
                    for name, path in PAGES.items():
                        with self.subTest(f"{name} {scheme} {width}"):
                            self.open(page, path)
                            self.fits(page, width)
                            self.is_usable(page)
                            self.keep(page, f"{name}-{scheme}-{width}")

    def fits(self, page, width):
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        cut = page.evaluate("[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).map(box => box.innerText)")
        self.assertEqual(cut, [], "a table is wider than its box")

    def is_usable(self, page):
        found = Axe().run(page).response["violations"]
        grave = [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in GRAVE]
        self.assertEqual(grave, [])

    def keep(self, page, name):
        if SCREENSHOTS:
            page.screenshot(path=pathlib.Path(SCREENSHOTS) / f"{name}.png", full_page=True)


class Hostile(Ui):
    hostile = True

    def test_what_others_word_stays_text(self):
        for width in (1280, 375):
            with self.page(width) as page:
                for name, path in PAGES.items():
                    with self.subTest(f"{name} {width}"):
                        self.open(page, path)
                        self.assertNotIn("taken", page.title())
                        self.assertEqual(page.locator("img").count(), 0)
                        self.assertEqual(page.locator("script").count(), 1)
                        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        with self.page() as page:
            self.open(page, "/jobs")
            text = page.locator("main").inner_text()
            for seen in ("<script>document.title", "<img src=x", "␛[31mred␛[0m␛", "{{7*7}}"):
                self.assertIn(seen, text)


class Used(Ui):
    def test_it_works_without_a_script(self):
        with self.page(java_script_enabled=False) as page:
            self.open(page, "/machines")
            self.assertEqual(page.locator("tbody tr").count(), 100)
            page.get_by_label("Find").fill("-7-1")
            page.get_by_role("button", name="Show").click()
            self.assertEqual(page.locator("tbody tr").count(), 1)
            asked = len(self.stack.asked)
            page.get_by_role("link", name="Refresh").click()
            self.assertGreater(len(self.stack.asked), asked)
            self.assertIn("q=-7-1", page.url)

    def test_it_works_by_keyboard(self):
        with self.page() as page:
            self.open(page, "/")
            page.keyboard.press("Tab")
            self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to content")
            page.keyboard.press("Enter")
            self.assertEqual(page.evaluate("document.activeElement.id"), "main")
            page.keyboard.press("g")
            page.keyboard.press("m")
            page.wait_for_url("**/machines")
            page.keyboard.press("/")
            page.keyboard.type("-7-1")
            page.keyboard.press("Enter")
            page.wait_for_url("**q=-7-1*")
            self.assertEqual(page.locator("tbody tr").count(), 1)

    def test_a_page_that_can_be_seen_renews_itself_and_lets_nobody_lose_what_was_typed(self):
        with self.page() as page:
            self.open(page, "/")
            first = page.locator(".age time").first.get_attribute("datetime")
            page.wait_for_function("was => document.querySelector('.age time').dateTime !== was", arg=first, timeout=15_000)
            self.assertEqual(page.locator("#live").inner_text(), "live")
            self.open(page, "/machines")
            page.get_by_label("Find").fill("some")
            page.wait_for_timeout(6_000)
            self.assertEqual(page.get_by_label("Find").input_value(), "some")

    def test_an_order_is_given_behind_its_own_page(self):
        with self.page() as page:
            self.open(page, f"/machines/{MACHINE}")
            page.get_by_role("link", name="Force the delete…").click()
            self.assertIn("EC2 errors do not delay it", page.locator("main").inner_text())
            page.get_by_label("Reason").fill("stuck for an hour")
            page.get_by_label("Type the name").fill("another-one")
            page.get_by_role("button", name="Force the delete").click()
            self.assertIn("Nothing was changed", page.get_by_role("alert").inner_text())
            self.assertEqual(self.ordered(), [])
            page.get_by_label("Type the name").fill(MACHINE)
            page.get_by_role("button", name="Force the delete").click()
            page.wait_for_url(f"**/machines/{MACHINE}")
            (order,) = self.ordered()
            self.assertEqual((order["force"], order["reason"], order["by"]), (True, "stuck for an hour", "mira"))

    def ordered(self):
        return [asked for asked in self.stack.asked if asked["action"] == "delete" and not asked["dry_run"]]

    def test_a_machine_is_tried_and_shown(self):
        with self.page(java_script_enabled=False) as page:
            self.open(page, "/pools/gpu")
            page.get_by_label("Registered at").fill("acme")
            page.get_by_role("button", name="Launch a test machine…").click()
            self.assertIn("You pay for it until it ends", page.locator("main").inner_text())
            page.get_by_role("button", name="Launch it").click()
            page.wait_for_url("**/machines/small-l1-0")
            (order,) = [one for one in self.stack.asked if one["action"] == "canary" and not one["dry_run"]]
            self.assertEqual((order["pool"], order["entity"], order["by"]), ("gpu", "acme", "mira"))

    def test_what_a_queue_gave_up_is_sent_back(self):
        with self.page(java_script_enabled=False) as page:
            self.open(page, "/dead-letters")
            page.get_by_role("link", name="Redrive…").first.click()
            self.assertIn("2 messages from jobs", page.locator("main").inner_text())
            page.get_by_role("button", name="Redrive").click()
            self.assertIn("2 messages on the way back", page.get_by_role("status").last.inner_text())
            self.assertEqual([one["SourceArn"] for one in self.stack.asked if one["action"] == "StartMessageMoveTask"], ["arn:jobs"])

    def test_jobs_of_a_repository_are_taken_in(self):
        with self.page(java_script_enabled=False) as page:
            self.open(page, "/jobs")
            page.get_by_role("textbox", name="Repository").fill("acme/web")
            page.get_by_role("button", name="Import…").click()
            self.assertIn("Imports jobs that are queued at GitHub", page.locator("main").inner_text())
            page.get_by_role("button", name="Import them").click()
            self.assertIn("1 job was imported.", page.get_by_role("status").last.inner_text())
            (order,) = [one for one in self.stack.asked if one["action"] == "jobs" and one["adopt"]]
            self.assertEqual(order["repository"], "acme/web")
            if SCREENSHOTS:
                page.screenshot(path=pathlib.Path(SCREENSHOTS) / "taken-in.png", full_page=True)

    def test_a_delivery_is_sent_again(self):
        with self.page(java_script_enabled=False) as page:
            self.open(page, "/")
            page.get_by_role("link", name="GitHub", exact=True).first.click()
            page.get_by_role("link", name="Redeliver…").click()
            self.assertIn("GitHub redelivers its newest delivery", page.locator("main").inner_text())
            page.get_by_role("button", name="Redeliver it").click()
            self.assertIn("was answered 401", page.get_by_role("status").last.inner_text())
            self.assertEqual([one["hook"] for one in self.stack.asked if one["action"] == "github" and one.get("hook")], ["test"])

    def test_a_pool_file_is_changed_behind_its_difference(self):
        with self.page() as page:
            self.open(page, "/pools")
            page.get_by_text("Show and edit").click()
            field = page.get_by_label("The pool file, as YAML")
            field.fill(field.input_value() + "# more\n")
            page.get_by_role("button", name="Preview the changes…").click()
            self.assertIn("pool new is added", page.locator("main").inner_text())
            page.get_by_label("Reason").fill("more room")
            page.get_by_role("button", name="Apply").click()
            page.wait_for_url("**/pools")
            (applied,) = [one for one in self.stack.asked if one["action"] == "pools" and one["file"] and not one["dry_run"]]
            self.assertTrue(applied["file"].endswith("# more\n"))


class Strangers(Ui):
    def test_another_site_can_give_no_order(self):
        form = f'<form method="post" action="{self.base}/do/pause"><input name="what" value="launches"></form>'
        context = self.browser.new_context(storage_state=self.cookie)
        page = context.new_page()
        page.goto(f"data:text/html,{form}")
        with page.expect_navigation() as gone:
            page.evaluate("document.forms[0].submit()")
        self.assertEqual(gone.value.status, 403)
        context.close()
        context = self.browser.new_context()
        self.assertEqual(context.new_page().goto(self.base).status, 403)
        context.close()
        self.assertFalse(any(asked["action"] == "switch" for asked in self.stack.asked))

    def test_a_page_on_another_port_gets_no_cookie(self):
        heard = []

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append((self.path, self.headers.get("cookie")))
                body = f'<img src="{base}/go?name=https%3A%2F%2Fevil.example%2Fa%2Fb%2Factions%2Fruns%2F1">'.encode()
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        base = self.base
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = self.browser.new_context(storage_state=self.cookie)
        self.addCleanup(context.close)
        page = context.new_page()
        # The foreign page even knows the secret path.
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/", wait_until="networkidle")
        self.assertEqual(page.locator("img").evaluate("image => image.naturalWidth"), 0)
        self.assertIn(("/", None), heard)
        self.assertEqual([cookie for _, cookie in heard if cookie], [])


class Broken(Ui):
    def test_the_last_answer_stays_when_there_is_no_newer_one(self):
        with self.page() as page:
            self.open(page, "/")
            self.stack.down = True
            alert = page.get_by_role("alert")
            alert.wait_for(timeout=15_000)
            self.assertIn("did not answer in time", alert.inner_text())
            self.assertIn("Needs attention", page.locator("main").inner_text())


class ReadOnly(Ui):
    flags = ("--read-only",)

    def test_there_is_no_way_to_an_order(self):
        with self.page() as page:
            for path in ("/", "/pools", f"/machines/{MACHINE}"):
                self.open(page, path)
                self.assertEqual(page.locator("form[method=post], a[href*='/confirm/']").count(), 0)


if __name__ == "__main__":
    unittest.main()
