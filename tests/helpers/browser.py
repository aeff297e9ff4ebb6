"""Pages are opened in Chromium, without a window."""

import json
import shutil
import subprocess

import pytest

from hanging import HANG_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium to open a page")


def open_page(page, scratch) -> tuple[str, list[str], list[str]]:
    """Return the page's content, its lines in the console, and the addresses that it requested.

    Requests of the browser itself are left out: their initiator is not a page.
    """
    net_log = scratch / "net.json"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        *QUIET,
        "--enable-logging=stderr",
    ]
    command += [f"--user-data-dir={scratch / 'browser'}", f"--log-net-log={net_log}", "--virtual-time-budget=5000"]
    result = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=HANG_S)
    assert result.returncode == 0
    requests = [event.get("params", {}) for event in json.loads(net_log.read_text())["events"]]
    asked = [request["url"] for request in requests if request.get("initiator", "").startswith(("file", "null"))]
    remote = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    return result.stdout, [line for line in result.stderr.splitlines() if ":CONSOLE" in line], remote
