"""The report opens in a browser, without errors and without asking the network for anything."""

import json
import shutil
import subprocess

import pytest

from project import study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ADVICE = "cdn.tailwindcss.com should not be used in production"
"""Advice to Snakemake's developers that a script embedded in every report prints; it asks the network for nothing."""
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium to open the report")
def test_the_report_opens_without_errors_or_requests(project, tmp_path):
    project.write_config(small=study(inputs=["arrays", "synthetic"]))
    project.behave(dozing__base__gpus2="out_of_memory")
    project.snakemake()
    project.snakemake("--report", "results/report.html")
    report, net_log = project.folder / "results" / "report.html", tmp_path / "net.json"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        *QUIET,
        "--enable-logging=stderr",
    ]
    command += [f"--user-data-dir={tmp_path / 'browser'}", f"--log-net-log={net_log}", "--virtual-time-budget=5000"]
    page = subprocess.run([*command, "--dump-dom", report.as_uri()], capture_output=True, text=True, timeout=120)
    assert page.returncode == 0
    for text in ("small", "Which framework", "The same work in every framework"):
        assert text in page.stdout
    console = [line for line in page.stderr.splitlines() if ":CONSOLE" in line]
    assert [line for line in console if ADVICE not in line] == []
    events = json.loads(net_log.read_text())["events"]
    urls = {event.get("params", {}).get("url", "") for event in events}
    assert not [url for url in urls if url.startswith(("http:", "https:", "ws:", "wss:"))]


def test_every_figure_has_a_caption_and_reaches_the_report_description(project):
    figures = {path.stem for path in (project.folder / "workflow/lib/benchreport/figures").glob("[a-z]*.py")}
    captions = {path.stem for path in (project.folder / "workflow/report").glob("*.rst")}
    assert figures <= captions
