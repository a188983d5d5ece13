# SPDX-License-Identifier: Apache-2.0
#
# The console in a real browser, against a real broker with real devices: the main way of each page, attacks, a broker that
# goes and comes back, accessibility, and a picture of each page. Errors of scripts and warnings of the browser fail.
#
#   python console_browser.py PROGRAM FOLDER_OF_PICTURES

import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

PROGRAM, PICTURES = sys.argv[1], pathlib.Path(sys.argv[2])
PASSWORD = "a long password"
STORED = "<img src=x onerror=document.title='owned'>"
DEVICES = 6
# Recipients of the largest fanout, simulated by console_crowd.py.
CROWD = 100_000
LOOPS = 8


class Broker:
    """The program with a gateway, on a folder of its own."""

    def __init__(self, folder, http="127.0.0.1:0", more=()):
        self.folder = folder
        self.process = None
        self.http, self.more = http, more

    def run(self, *words, text=None):
        done = subprocess.run(
            [PROGRAM, *words, "--data-folder", self.folder], input=text, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def json(self, *words, text=None):
        return json.loads(self.run(*words, "--json", text=text))

    def start(self):
        # A loop has places for as many apps as it may have descriptors, so a crowd needs several loops.
        self.process = subprocess.Popen(
            [PROGRAM, "gateway", "--data", self.folder, "--port", "0", "--http", self.http, "--json",
             "--loops", str(LOOPS), "--limit", "registrations-per-second-per-address=0", *self.more],
            stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        self.port, self.url, self.transport = ready["port"], ready["http"], ready["transport"]
        self.http = self.url.split("//")[1]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()


class Devices:
    """Devices that listen, each with its topics, and what they print."""

    def __init__(self, broker, key):
        self.broker, self.key, self.all = broker, key, []

    def start(self, number):
        topics = ["tides"] if number < 3 else ["tides", "silent"] if number < 5 else ["weather"]
        platform = ["android", "apple", "web"][number % 3]
        words = [PROGRAM, "listen", "--data", self.broker.folder, "--port", str(self.broker.port),
                 "--project", "tides", "--app", f"com.example.{platform}", "--platform", platform,
                 "--state", f"{self.broker.folder}/device{number}.json"]
        for topic in topics:
            words += ["--topic", topic]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "MARTLET_REGISTRATION_KEY": self.key})
        token = process.stdout.readline().split()[1]
        process.stdout.readline()
        self.all.append((process, token))

    def stop(self):
        for process, _ in self.all:
            if process.poll() is None:
                process.terminate()
                process.wait()


class Crowd:
    """Very many devices in a process of their own. On epoll their number is bounded by the open descriptors."""

    def __init__(self, broker, project, app, key):
        most = CROWD
        if broker.transport == "epoll":
            most = min(CROWD, resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 3 // 4)
        self.count = most
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(pathlib.Path(__file__).with_name("console_crowd.py")), str(broker.port),
             project, app, key, str(self.count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self, word):
        line = self.process.stdout.readline()
        assert line.split() == [word, str(self.count)], line

    def __enter__(self):
        self.wait("registered")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class Page:
    """A browser."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = os.environ.get("MARTLET_CHROMIUM", "/usr/bin/chromium")
        for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]:
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.size(1440, 1000)

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self):
        return self.find("body").text

    def wait(self, what, test, seconds=15):
        try:
            return WebDriverWait(self.driver, seconds, ignored_exceptions=[Exception]).until(lambda _: test())
        except Exception as error:
            raise AssertionError(f"{what}: did not happen. The page says:\n{self.text()}") from error

    def see(self, text):
        self.wait(f"see {text!r}", lambda: text in self.text())

    def heading(self, text):
        self.wait(f"heading {text!r}", lambda: self.find("h1").text == text)

    def go(self, url, fragment, heading):
        self.driver.get(f"{url}/console/{fragment}")
        self.heading(heading)

    def press(self, label):
        def click():
            for button in self.driver.find_elements(By.XPATH, f"//button[normalize-space()='{label}']|//a[normalize-space()='{label}']"):
                if button.is_displayed() and button.is_enabled():
                    button.click()
                    return True
            return False
        self.wait(f"press {label!r}", click)

    def type(self, selector, text):
        field = self.wait(f"field {selector}", lambda: self.find(selector))
        field.clear()
        field.send_keys(text)

    def fetch(self, method, path, body=None, headers=None):
        """A request of a script of the page."""
        return self.driver.execute_async_script("""
            const [method, path, body, headers, done] = arguments;
            fetch(path, {method, headers, body: body ?? undefined}).then((answer) => done(answer.status));
            """, method, path, body, headers or {})

    def clean(self, when):
        """No error of a script, and no warning. The browser also notes each refusal of the API, which pages explain."""
        entries = [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
                   and not (entry["source"] == "network" and "/console/api/v1/" in entry["message"])]
        assert not entries, (when, entries)


def sign_in(page, name):
    page.type("#name", name)
    page.type("#password", PASSWORD)
    page.press("Sign in")


def newcomer(page, broker, devices):
    """From the printed link to the device, and again to those that have not got it. Nothing is read before."""
    page.driver.get(broker.json("console", "link")["url"])
    page.heading("Overview")
    page.see("Deliveries a second")
    page.wait("live data", lambda: page.find(".tile .value").text == str(DEVICES))
    assert "link=" not in page.driver.current_url

    page.press("Audience")
    page.heading("Audience")
    page.type("#condition", "'tides' in topics &&& 'x'")
    page.wait("a wrong condition is marked", lambda: page.find("#condition").get_attribute("aria-invalid") == "true")
    page.see("At character ")
    page.find(".t-wrong")
    condition = "'tides' in topics && !('silent' in topics)"
    page.type("#condition", condition)
    exact = broker.json("audience", condition, "--project", "tides")["total"]
    page.wait("exact audience", lambda: page.find("[data-total]").get_attribute("data-total") == str(exact))
    page.wait("how many are connected", lambda: page.find("[data-connected]").get_attribute("data-connected") == str(exact))
    page.see("How it is read")
    page.press("List tokens")
    page.see(devices.all[0][1])

    page.press("Send to these")
    page.heading("Compose")
    page.wait("exact audience", lambda: page.find("[data-total]").get_attribute("data-total") == str(exact))
    page.type("#title", "x" * 1025)
    page.see("1025 of 1024 characters")
    page.press("Send")
    page.see("1024 are allowed")
    page.type("#title", "High tide")
    page.type("#body", "at 14:05")
    page.press("Check")
    page.see(f"accepted for {exact} devices")
    page.press("Send")
    page.wait("the message's page", lambda: page.find("h1").text.startswith("Message "))
    number = page.find("h1").text.split()[1]
    page.wait("received", lambda: page.find('[data-count="Received"]').text == str(exact), 30)
    for process, _ in devices.all[:3]:
        assert "High tide" in process.stdout.readline() + process.stdout.readline()
    # Devices show a message before their acknowledgement comes, and the page never tells of more displayed than received.
    page.see("At its end: no device is pending.")
    report = broker.json("report", number, "--project", "tides")["counts"]
    assert report["acknowledged"] == exact and report["targeted"] == exact, report
    page.see("Targeted, the sum")
    page.driver.refresh()
    page.wait("the same after a reload", lambda: page.find('[data-count="Received"]').text == str(exact), 30)

    process, token = devices.all[0]
    process.terminate()
    process.wait()
    number = broker.json("send", "--project", "tides", "--condition", condition, "--title", "Ebb")["messageID"].split("/")[-1]
    page.go(broker.url, f"#/project/tides/messages/{number}", f"Message {number}")
    page.wait("two of three", lambda: page.find('[data-count="Received"]').text == "2", 30)
    page.press("List them")
    page.see(token)
    page.see("not connected; a later message may replace it")
    page.press("Send again to these")
    page.heading("Compose")
    page.wait("exactly the missing one", lambda: page.find("[data-total]").get_attribute("data-total") == "1")
    page.wait("it is not connected", lambda: page.find("[data-connected]").get_attribute("data-connected") == "0")
    page.clean("the newcomer's way")
    return number, token


def crowd(page, broker, key):
    """A message to very many, from its exact audience to its end: the page's numbers are those of the report."""
    app = "com.example.crowd"
    with Crowd(broker, "very-many", app, key) as devices:
        count = f"{devices.count:,}"
        page.go(broker.url, "#/project/very-many/compose", "Compose")
        Select(page.find("#kind")).select_by_value("app")
        page.type("#app-name", app)
        page.wait("exact audience", lambda: page.find("[data-total]").get_attribute("data-total") == str(devices.count))
        page.wait("all are connected", lambda: page.find("[data-connected]").get_attribute("data-connected") == str(devices.count))
        page.type("#title", "To everyone")
        page.press("Send")
        page.see(f"Send to {count} devices?")
        page.find("dialog button:last-of-type").click()
        page.wait("the message's page", lambda: page.find("h1").text.startswith("Message "))
        number = page.find("h1").text.split()[1]
        devices.wait("received")
        page.wait("received by all", lambda: page.find('[data-count="Received"]').text == count, 60)
        page.see("At its end: no device is pending.")
        report = broker.json("report", number, "--project", "very-many")["counts"]
        names = {"Targeted": "targeted", "Sent to the device": "sent", "Received": "acknowledged", "Displayed": "displayed",
                 "Opened": "opened"}
        wanted = {name: f"{report[key]:,}" for name, key in names.items()}
        page.wait(f"the numbers of the report, {wanted}", lambda: wanted == {
            one.get_attribute("data-count"): one.text
            for one in page.driver.find_elements(By.CSS_SELECTOR, "[data-count]")})
        assert report["sent"] == devices.count, report
        assert report["targeted"] == report["acknowledged"] == devices.count and report["pending"] == 0, report
        assert page.find("tr.total").text.split()[-1] == count
        page.clean("a message to very many")
    print(f"A message went to {count} devices, and the page told the report's numbers.")


def device(page, broker, devices):
    """The page of a device that is connected, and then away with a message waiting."""
    process, token = devices.all[2]
    page.go(broker.url, f"#/project/tides/devices/{token}", "Devices")
    page.see("127.0.0.1, on loop ")
    page.see("active")
    page.see("Nothing waits.")
    page.find('[data-limit="messagesPerMinute"]')
    process.terminate()
    process.wait()
    broker.run("send", "--project", "tides", "--token", token, "--title", "Waits", "--collapse-key", "score")

    def waits():
        page.driver.refresh()
        page.heading("Devices")
        page.see("Waiting in its mailbox")
        return "not connected; a later message may replace it" in page.text()

    page.wait("the message waits", waits)
    page.clean("a device")


def schedule(page, broker):
    page.go(broker.url, "#/project/tides/compose?topic=tides", "Compose")
    page.type("#title", "Later")
    page.driver.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.driver.execute_script("""
        const at = new Date(Date.now() + 3600e3 - new Date().getTimezoneOffset() * 60e3).toISOString().slice(0, 16);
        document.querySelector('#at').value = at;""")
    page.press("Send")
    page.see("Scheduled for ")
    number = page.find("h1").text.split()[1]
    page.go(broker.url, "#/project/tides/messages", "Messages")
    page.wait("the scheduled message is listed", lambda: page.find(f"section a[href$='/messages/{number}']"))
    page.go(broker.url, f"#/project/tides/messages/{number}", f"Message {number}")
    page.press("Cancel it")
    page.see("Cancel this message?")
    page.find("dialog button:last-of-type").click()
    page.see("The message is cancelled.")
    page.go(broker.url, "#/project/tides/compose?topic=tides", "Compose")
    page.type("#title", "Too late")
    page.driver.execute_script("document.querySelector('#at').value = '2020-01-01T12:00';")
    page.press("Send")
    page.see("The time to send at is past.")
    page.driver.execute_script("document.querySelector('#at').value = '';")
    page.driver.execute_script("document.querySelector('#title').value = '';")
    page.press("Send")
    page.see("The message is empty")
    page.clean("schedule")


def drafts(page, broker):
    """A draft outlives a look at another page, and two topics chosen one after the other make a condition."""
    page.go(broker.url, "#/project/tides/compose", "Compose")
    Select(page.find("#kind")).select_by_value("condition")
    page.type("#title", "Half a message")
    page.press("Audience")
    page.heading("Audience")
    page.press("Compose")
    page.heading("Compose")
    page.wait("the draft", lambda: page.find("#title").get_attribute("value") == "Half a message")
    page.type("#condition", " ")
    for topic in ["silent", "tides"]:
        page.press(topic)
    page.wait("a condition of two topics", lambda: page.find("#condition").get_attribute("value").strip() ==
              "'silent' in topics && 'tides' in topics")
    page.wait("its number", lambda: page.find("[data-total]").get_attribute("data-total") == "2")
    page.type("#condition", "'tides' in topics && !('rare' in topics)")
    page.see("No device has the topic 'rare'.")
    page.clean("drafts")


def focus(page, broker):
    """An action leaves the focus where it was, or on what it has made; the skip link leads into the page."""
    active = "return document.activeElement.tagName + ' ' + (document.activeElement.textContent || '').slice(0, 40)"
    page.go(broker.url, "#/project/tides/compose?topic=tides", "Compose")
    page.type("#title", "Focus")
    page.wait("the number", lambda: page.find("[data-total]"))
    page.press("Check")
    page.see("Valid. It would be accepted for 5 devices.")
    assert page.driver.execute_script(active) == "BUTTON Check", page.driver.execute_script(active)
    page.go(broker.url, "#/project/tides/audience?condition='tides'+in+topics", "Audience")
    page.press("List tokens")
    page.wait("the focus on the list", lambda: page.driver.execute_script(
        "return document.activeElement !== document.body && document.activeElement.closest('table, div') !== null"))
    page.find(".skip").send_keys("\ue007")
    page.wait("the focus in the page", lambda: page.driver.execute_script(active).startswith("H1 "))
    page.heading("Audience")
    page.clean("focus")


def addresses(page, broker):
    """Wrong addresses lead somewhere, and say what is wrong."""
    for wrong in ["#/constructor", "#/project/tides/__proto__", "#/project/%E0%A4%A/compose"]:
        page.driver.get(f"{broker.url}/console/")
        page.driver.get(f"{broker.url}/console/{wrong}")
        page.wait(f"a page at {wrong}", lambda: page.find("h1").text)
    page.driver.get(f"{broker.url}/console/#/project/nowhere/audience")
    page.see("There is no project nowhere, or it is not for you.")
    assert "The broker does not answer" not in page.text()
    page.go(broker.url, "#/overview", "Overview")
    page.wait("live again", lambda: "There is no project" not in page.text())
    page.driver.get_log("browser")


def refused_stream(page, broker):
    """A person with as many streams as there may be is told so, and no longer that the broker is silent."""
    page.go(broker.url, "#/project/tides/topics", "Topics")
    # HTTP/1.1 has six connections for a browser, so the streams are those of another client with the same cookie.
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.driver.get_cookies())
    page.driver.get("about:blank")
    held = []

    def hold():
        client = http.client.HTTPConnection(broker.url.split("//")[1])
        client.request("GET", "/console/api/v1/events", headers={"cookie": cookie})
        answer = client.getresponse()
        if answer.status == 200:
            held.append((client, answer))
        return len(held) == 8

    # The place of the page's own stream is free as soon as the server sees its end.
    page.wait("eight streams", hold)
    page.go(broker.url, "#/project/waves/topics", "Topics")
    page.see("There are as many open pages as there may be; close one.")
    for client, answer in held:
        answer.close()
        client.close()
    page.wait("live again", lambda: "as many open pages" not in page.text(), 30)
    page.driver.get_log("browser")


def narrow(page, broker):
    """On a telephone no part of a page is out of reach: settings of a project, a refusal, the menu."""
    page.size(390, 700)
    page.go(broker.url, "#/projects", "Projects")
    page.press("tides")
    page.see("Quotas of tides")
    page.see("Topic changes per second")
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    page.go(broker.url, "#/project/tides/compose?topic=tides", "Compose")
    page.driver.execute_script("document.querySelector('#title').value = '';")
    page.driver.execute_script("document.querySelector('#send').scrollIntoView({block: 'start'});")
    page.press("Send")
    page.see("The message is empty")
    page.wait("the refusal is on the screen", lambda: page.driver.execute_script("""
        const { top, bottom } = document.querySelector('[role=alert]').getBoundingClientRect();
        return top >= 0 && bottom <= innerHeight;"""))
    page.press("Menu")
    page.wait("the menu", lambda: page.find(".fold").is_displayed())
    page.driver.switch_to.active_element.send_keys("\ue00c")
    page.wait("no menu", lambda: not page.find(".fold").is_displayed())
    assert page.driver.switch_to.active_element.text == "Menu"
    page.size(1440, 1000)
    page.clean("a narrow screen")


def cancelled(page, broker):
    """A message that one of three has got is cancelled: who has it does not count as without it."""
    page.size(1440, 1000)
    message = broker.json("send", "--project", "tides", "--condition", "'tides' in topics && !('silent' in topics)",
                          "--title", "Halt")["messageID"].split("/")[-1]
    page.go(broker.url, f"#/project/tides/messages/{message}", f"Message {message}")
    page.wait("one of three", lambda: page.find('[data-count="Received"]').text == "1", 30)
    page.press("Cancel the message")
    page.find("dialog button:last-of-type").click()
    page.see("It had gone out to 1 device already; that one keeps it.")
    page.see("At its end: no device is pending.")
    page.wait("no button to cancel", lambda: "Cancel the message" not in page.text())
    page.press("List them")
    page.wait("the missing two, and why", lambda: "cancelled" in page.find("main").text and
              len(page.driver.find_elements(By.CSS_SELECTOR, "td.token")) == 2)
    page.clean("a cancelled message")


def reports(page, broker):
    """Each row of the reports adds up, whatever it is for, and messages that are now or never have words of their own."""
    broker.run("send", "--project", "tides", "--topic", "tides", "--title", "Now", "--ttl", "0")
    later = broker.json("send", "--project", "tides", "--topic", "tides", "--title", "Later", "--at", "+1h")["messageID"]
    broker.run("cancel", later, "--project", "tides")
    page.wait("the counts of now-or-never messages are written",
              lambda: broker.json("report", "tides")["total"]["nowOrNever"] > 0)
    page.size(1440, 1000)
    wanted = ["Targeted", "Received or handed over", "Waiting", "Now or never", "Lost"]

    def rows():
        return page.driver.execute_script("""
            return [...document.querySelectorAll('table tbody tr')].map((row) => [...row.querySelectorAll('th, td')].slice(1)
              .map((cell) => Number(cell.innerText.replaceAll(',', ''))));""")

    page.go(broker.url, "#/project/tides/reports", "Reports")
    for kind in ["day", "app", "platform"]:
        Select(page.find("#by")).select_by_visible_text(kind)
        page.wait(f"a row for each {kind}", lambda: page.find("thead th").text.lower() == kind)
        titles = [one.text.lower() for one in page.driver.find_elements(By.CSS_SELECTOR, "thead th")][1:6]
        assert titles == [one.lower() for one in wanted], titles
        for targeted, *parts in rows():
            assert targeted == sum(parts[:4]), (kind, targeted, parts)
    total = broker.json("report", "tides")["total"]
    assert rows()[-1][:5] == [
        total["targeted"], total["acknowledged"] + total["handedOver"], total["pending"], total["nowOrNever"],
        sum(total[one] for one in ["collapsed", "expired", "rateLimited", "discarded", "unregistered", "cancelled", "refused"])]
    assert total["nowOrNever"] > 0 and total["cancelled"] > 0, total
    page.see("Now or never")
    page.clean("the reports")


def password(page, broker):
    """A person changes the own password, and stays signed in."""
    page.press("Password")
    page.type("#password-current", PASSWORD)
    page.type("#password-next", PASSWORD + " 2")
    page.press("Change")
    page.wait("the dialog closes", lambda: not page.driver.find_elements(By.CSS_SELECTOR, "dialog"))
    page.press("People")
    page.heading("People")
    page.press("Sign out")
    page.see("You are signed out.")
    page.type("#name", "ann")
    page.type("#password", PASSWORD + " 2")
    page.press("Sign in")
    page.see("People")
    page.clean("the own password")


def tabs(page, broker):
    """More tabs than a browser has connections for a host."""
    first = page.driver.current_window_handle
    for _ in range(8):
        page.driver.switch_to.new_window("tab")
        page.go(broker.url, "#/overview", "Overview")
        page.see("Deliveries a second")
    for handle in page.driver.window_handles:
        if handle != first:
            page.driver.switch_to.window(handle)
            page.driver.close()
    page.driver.switch_to.window(first)
    page.wait("live again", lambda: page.find(".tile .value").text)


def attacks(page, broker, devices):
    """Stored scripts in all texts that the pages show, and requests from outside."""
    tokens = ["--token", devices.all[1][1]]
    broker.run("group", "create", STORED, *tokens, "--project", "tides")
    broker.run("key", "create", "--project", "tides", "--name", STORED)
    broker.run("send", "--project", "tides", "--topic", "tides", "--title", STORED, "--body", STORED)
    for fragment, heading in [("groups", "Groups"), ("keys", "Keys")]:
        page.go(broker.url, f"#/project/tides/{fragment}", heading)
        page.see(STORED)
        assert not page.driver.find_elements(By.CSS_SELECTOR, "main img")
    page.go(broker.url, "#/project/tides/compose?" + "condition=%3Cimg%20src%3Dx%20onerror%3D1%3E", "Compose")
    page.type("#title", STORED)
    assert not page.driver.find_elements(By.CSS_SELECTOR, "main img")
    assert page.driver.title != "owned"
    page.clean("stored scripts")
    assert page.fetch("POST", "/console/api/v1/projects", '{"project":"forged"}') == 403
    assert page.fetch("POST", "/console/api/v1/projects", "x" * (1 << 20)) in (403, 413)
    assert "forged" not in broker.run("project", "list")


def roles(page, broker):
    page.size(1440, 1000)
    page.press("Sign out")
    page.see("You are signed out.")
    sign_in(page, "vic")
    page.heading("Audience")
    links = page.find("nav").text
    assert "Keys" not in links and "Compose" not in links and "Overview" not in links, links
    assert page.fetch("GET", "/console/api/v1/projects/tides/topics") == 403
    broker.run("console", "user", "remove", "vic")
    page.see("Sign in again.")
    page.type("#name", "ann")
    page.type("#password", "wrong password")
    page.press("Sign in")
    page.see("The name or the password is wrong.")
    sign_in(page, "ann")
    page.see("People")
    page.clean("roles")


def restart(page, broker):
    page.go(broker.url, "#/overview", "Overview")
    page.see("Deliveries a second")
    broker.stop(signal.SIGKILL)
    page.see("The broker does not answer.")
    broker.start()
    page.wait("back by itself", lambda: "The broker does not answer." not in page.text(), 30)
    page.heading("Overview")
    page.driver.get_log("browser")


def pictures(page, broker, message, token):
    """Each page in light and dark, narrow and wide: no page is wider than the screen, and each passes axe."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    axe = next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/axe_selenium_python/node_modules/axe-core/axe.min.js"))
    pages = ["overview", "projects", "people", "log", "project/tides/compose?topic=tides", "project/tides/audience?condition='tides'+in+topics",
             f"project/tides/messages/{message}", "project/tides/messages", "project/tides/reports", f"project/tides/devices/{token}",
             "project/tides/topics", "project/tides/groups", "project/tides/keys"]
    for mode in ["light", "dark"]:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": mode}]})
        for width in [1440, 390]:
            page.size(width, 900)
            for one in pages:
                page.driver.get(f"{broker.url}/console/#/{one}")
                time.sleep(0.5)
                broad = page.driver.execute_script("return document.documentElement.scrollWidth")
                assert broad <= width, f"{one} is {broad} pixels wide at {width}"
                plain = one.split("?")[0].split(token)[0].replace(f"messages/{message}", "message")
                name = re.sub(r"[^a-z]+", "-", plain.lower()).strip("-")
                page.driver.save_screenshot(str(PICTURES / f"{name}-{mode}-{width}.png"))
                if width == 1440:
                    # The policy of the pages admits no script of others: the driver runs axe itself.
                    page.driver.execute_script(axe.read_text())
                    found = page.driver.execute_async_script(
                        "axe.run({runOnly: ['wcag2a', 'wcag2aa']}).then(arguments[0]);")["violations"]
                    assert not found, (one, mode, [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found])
    page.clean("pictures")


def keyboard(page, broker):
    """From the address to the sending of a message without a mouse: each stop has a name and is seen."""
    page.size(1440, 1000)
    page.go(broker.url, "#/project/tides/compose?condition='tides'+in+topics", "Compose")
    names = set()
    for _ in range(60):
        page.driver.switch_to.active_element.send_keys("\ue004")
        name = page.driver.execute_script("""
            const one = document.activeElement;
            return one === document.body ? '' : one.labels?.[0]?.innerText || one.getAttribute('aria-label') || one.innerText || one.tagName;""")
        names.add(name.strip())
    for needed in ["Title", "Body", "Send", "Condition", "Target"]:
        assert needed in names, (needed, names)


def main():
    with tempfile.TemporaryDirectory(prefix="martlet-console-") as folder:
        broker = Broker(folder)
        key = broker.json("project", "create", "tides")["registrationKey"]
        broker.run("project", "create", "waves")
        crowd_key = broker.json("project", "create", "very-many")["registrationKey"]
        broker.run("project", "set", "very-many", "--limit", "registrations-per-second=0")
        broker.run("console", "user", "add", "ann", "--role", "administrator", text=PASSWORD + "\n")
        broker.run("console", "user", "add", "vic", "--project", "waves", text=PASSWORD + "\n")
        broker.start()
        devices = Devices(broker, key)
        page = None
        try:
            for number in range(DEVICES):
                devices.start(number)
            page = Page()
            message, token = newcomer(page, broker, devices)
            crowd(page, broker, crowd_key)
            device(page, broker, devices)
            schedule(page, broker)
            attacks(page, broker, devices)
            drafts(page, broker)
            focus(page, broker)
            addresses(page, broker)
            tabs(page, broker)
            refused_stream(page, broker)
            narrow(page, broker)
            cancelled(page, broker)
            reports(page, broker)
            keyboard(page, broker)
            pictures(page, broker, message, devices.all[1][1])
            roles(page, broker)
            password(page, broker)
            restart(page, broker)
            log = broker.run("audit")
            for action in ["link.open", "session.begin", "message.send", "message.cancel", "user.remove", "project.create", "key.create"]:
                assert action in log, (action, log)
        finally:
            if page:
                page.driver.quit()
            devices.stop()
            if broker.process.poll() is None:
                broker.stop()
    print("The console works in a browser.")


main()
