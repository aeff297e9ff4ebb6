"""The page of all runs has every run with its record, whatever a message contains, and can be sorted and filtered."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import pytest

from helpers.browser import needs_chromium, open_page
from helpers.records import make_attempt
from helpers.specs import make_spec
from helpers.stored_runs import collect, plan_of, store_run
from howmanygpus.report.files import read_table, read_texts, write_table
from howmanygpus.report.pages import all_runs
from howmanygpus.report.pages.all_runs_figure import draw_svg
from howmanygpus.report.tables import timelines
from howmanygpus.report.tables.scaling import compute_scaling

HOSTILE = """</script></td><img src=x onerror="nothing.here()"><script>nothing.here()</script> & 'it' "said" """.strip()
SHOWN_LAST = "RuntimeError: the last line"
LOG = f"first line\n\x1b[31mred\x1b[0m {HOSTILE}\nhttps://user:secret@host/x\n1 %\r99 %\n{SHOWN_LAST}\n"
TELEMETRY = "time_s,node,device,utilisation_frac,memory_gib\n" + "".join(f"{s},0,cpu0,0.5,1\n" for s in range(1, 21))
SLOW, MIDDLE, FAST = 160 / 17, 40.0, 800.0


@pytest.fixture
def results(tmp_path):
    """Store three completed runs of a configuration, one on two devices, and one each that crashed and is stale."""
    for name, repeat, window_s in (("run0", 1, (1.0, 3.0)), ("run1", 2, (0.1, 0.1)), ("run2", 3, (8.0, 9.0))):
        store_run(tmp_path, name, make_spec(repeat=repeat, seed=repeat), window_s=window_s)
    store_run(tmp_path, "run3", make_spec(num_gpus=2, global_batch_size=16))
    store_run(tmp_path, "run5", make_spec(framework="chainer_mn", epochs=7))
    for path in (tmp_path / "results" / "runs").glob("*/events.jsonl"):
        events = [json.loads(line) | {"wall_s": 20.0} for line in path.read_text().splitlines()]
        path.write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "results" / "runs" / "run0" / "telemetry.csv").write_text(TELEMETRY)
    attempt = tmp_path / "results" / "attempts" / "run4" / "20260101T000000-1" / "attempt.json"
    attempt.parent.mkdir(parents=True)
    attempt.write_text(json.dumps(make_attempt(make_spec(framework="jax_sharding"), "crashed", reason=HOSTILE)))
    log = tmp_path / "results" / "logs" / "train" / "run4.log"
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    return tmp_path


@pytest.fixture
def made(results):
    """Return the page of all runs as a file, and the rows of its table as they are in runs.tsv."""
    specs = [make_spec(repeat=repeat, seed=repeat) for repeat in (1, 2, 3)]
    specs += [make_spec(num_gpus=2, global_batch_size=16)]
    specs += [make_spec(framework=name) for name in ("jax_sharding", "chainer_mn", "mxnet_gluon")]
    plan = plan_of(*specs, unsupported=[make_spec(framework="pytorch_dp")])
    path, page = results / "runs.tsv", results / "results" / "all_runs.html"
    write_table(path, collect(plan, results)[0])
    runs, rows = read_table(path), read_texts(path).to_dict("records")
    write_table(results / "timelines.tsv", timelines.tabulate(plan, results))
    facts = all_runs.collect(rows, runs, [read_table(results / "timelines.tsv")], results)
    write_table(results / "scaling.tsv", compute_scaling(runs, {"weak": [8]}, {}))
    scaling = read_table(results / "scaling.tsv")
    figure = draw_svg(scaling, all_runs.match_configurations(scaling, runs).tolist())
    page.write_text(all_runs.render(facts, {"s": figure}))
    return page, rows


class Page(HTMLParser):
    """The titles and the rows of the table of a page. A cell is its text and its attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.rows: list[list[list]] = []
        self.tags: list[str] = []
        self._is_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(["", dict(attributes)])
            self._is_cell = True

    def handle_endtag(self, tag):
        self._is_cell = self._is_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self._is_cell:
            self.rows[-1][-1][0] += data


def read_page(page) -> list[dict[str, tuple[str, str]]]:
    """Return the rows of a page as the text and the value of each cell, by the titles of the columns."""
    titles, *rows = Page(page.read_text()).rows
    return [
        {title[0]: (text, own.get("data-value", text)) for title, (text, own) in zip(titles, row, strict=True)}
        for row in rows
    ]


def unpack(page) -> list[dict]:
    (packed,) = re.findall(r'id="details">(.*?)</script>', page.read_text())
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_page_has_every_run_with_its_values(made):
    page, rows = made
    shown, details = read_page(page), unpack(page)
    assert len(shown) == len(details) == len(rows) == 8
    for row, run, detail in zip(rows, shown, details, strict=True):
        assert run["framework"][0] == row["framework"] and run["status"][0] == row["status"]
        assert run["images/s"][1] == row["images_per_s"] and run["wall (s)"][1] == row["wall_time_s"]
        assert row["reason"] in run["remarks"][0]
        assert detail["values"] == {key: value for key, value in row.items() if value}
    assert [row["status"] for row in rows].count("completed") == 4
    assert {"crashed", "stale", "missing", "unsupported"} <= {row["status"] for row in rows}
    assert "another epochs" in shown[5]["remarks"][0]


def test_a_run_has_its_record_and_one_hash_of_its_code(made):
    page, _ = made
    first, *_, crashed, stale, missing, _ = unpack(page)
    assert first["record"] == "runs/run0/run.json" and (page.parent / first["record"]).exists()
    assert first["settings"]["seed"] == 1 and first["versions"] == {"torch": "2"}
    assert len(first["code"]) == 64 and first["code"] != crashed["code"] == ""
    assert stale["settings"]["epochs"] == 7
    assert crashed["record"] == "attempts/run4/20260101T000000-1/attempt.json"
    assert crashed["attempts"][0]["status"] == "crashed"
    assert "record" not in missing


def test_a_failed_run_has_the_end_of_its_log_without_colours_and_credentials(made):
    page, _ = made
    end = unpack(page)[4]["log_end"]
    assert end == ["first line", f"red {HOSTILE}", "https://host/x", "99 %", SHOWN_LAST]
    assert [run for run in unpack(page) if "log_end" in run] == [unpack(page)[4]]


def test_a_long_log_is_cut_to_its_last_lines(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("x" * 10**6 + "\n" + "\n".join(f"line {number}" for number in range(10**5)))
    end = all_runs.read_end(log)
    assert len(end) == all_runs.LOG_LINES and end[-1] == f"line {10**5 - 1}"


def test_the_timeline_of_a_run_is_the_mean_of_its_devices(made):
    page, _ = made
    timeline = unpack(page)[0]["timeline"]
    assert timeline["end_s"] == 20 and set(timeline["devices"]) == {50}
    assert "timeline" not in unpack(page)[6]


def test_a_hostile_message_is_text(made):
    page, rows = made
    assert rows[4]["reason"] == HOSTILE and read_page(page)[4]["remarks"][0] == HOSTILE
    assert "img" not in Page(page.read_text()).tags


def test_every_point_of_the_figure_says_what_it_is_and_leads_to_its_rows(made):
    page, _ = made
    points = dict(re.findall(r'<a href="#(run\d+)" role="link" aria-label="([^"]*)"', page.read_text()))
    assert points.keys() == {"run0", "run3"}
    for part in ("pytorch_ddp", "1 device:", "40 images/s (9.41 to 800)", "8 images per device", "3 of 3 repeats"):
        assert part in points["run0"]
    assert all(f'id="{row}"' in page.read_text() for row in points)


def test_the_rates_of_programs_have_their_units(made):
    page, rows = made
    of_program = all_runs.name_measures([row | {"unit": "tokens"} for row in rows])
    assert of_program["images_per_s"] == "tokens/s"
    both = all_runs.name_measures([rows[0], rows[1] | {"unit": "tokens"}])
    assert both["images_per_s"] == "images or tokens/s"
    scaling = read_table(page.parent.parent / "scaling.tsv").assign(unit="tokens")
    svg = draw_svg(scaling, list(range(len(scaling))))
    assert "40 tokens/s (9.41 to 800)" in svg and "8 tokens a step per device" in svg and "images" not in svg


def operate(page, scratch, script: str) -> dict:
    """Open a page, run a script in it that returns a value, and return this value. Nothing may fail or be requested."""
    text = page.read_text()
    end = f"document.title = JSON.stringify(await (async () => {{ {script} }})()); "
    operated = page.with_name("operated.html")
    operated.write_text(text.replace("</body>", f'<script type="module">{end}</script></body>'))
    content, console, requests = open_page(operated, scratch)
    assert console == [] and requests == []
    (title,) = re.findall("<title>(.*?)</title>", content)
    return json.loads(title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


ORDER = """
const order = () => [...document.querySelectorAll("#rows tbody tr")].map((row) => row.id);
const click = (title) =>
  [...document.querySelectorAll("#rows thead button")].find((each) => each.textContent === title).click();
"""


@needs_chromium
def test_numbers_are_sorted_as_numbers_and_rows_without_one_are_last(made, tmp_path):
    script = 'click("images/s"); const up = order(); click("images/s"); return [up, order()];'
    up, down = operate(made[0], tmp_path, ORDER + script)
    assert [run for run in up if run in ("run0", "run1", "run2")] == ["run2", "run0", "run1"]
    assert [run for run in down if run in ("run0", "run1", "run2")] == ["run1", "run0", "run2"]
    without = ["run4", "run5", "run6", "run7"]
    assert up[4:] == down[4:] == without


@needs_chromium
def test_words_and_lists_and_points_filter_the_rows(made, tmp_path):
    script = """
    const shown = () => [...document.querySelectorAll("#rows tbody tr:not([hidden])")].map((row) => row.id);
    const set = (field, value) => {
      field.value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      const now = shown();
      field.value = "";
      return now;
    };
    const frameworks = document.querySelector('#filters option[value="=chainer_mn"]').parentElement;
    const point = document.querySelector('#plot a[aria-label*="2 devices"]');
    point.dispatchEvent(new Event("focus"));
    const tip = document.getElementById("tip").textContent;
    const found = [set(document.getElementById("search"), "another EPOCHS"), set(frameworks, "=chainer_mn")];
    point.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    return [...found, shown(), tip, document.getElementById("count").textContent];
    """
    by_word, by_list, by_point, tip, count = operate(made[0], tmp_path, script)
    assert by_word == by_list == ["run5"] and by_point == ["run3"]
    assert "2 devices" in tip and count.startswith("1 of 8 runs")


@needs_chromium
def test_a_row_opens_its_record_and_a_hostile_message_stays_text(made, tmp_path):
    script = """
    document.querySelector("#run4 button").click();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const dialog = document.getElementById("record");
    return [dialog.open, dialog.textContent, document.images.length];
    """
    is_open, text, num_images = operate(made[0], tmp_path, script)
    assert is_open and num_images == 0
    for part in ("run4", HOSTILE, SHOWN_LAST, "jax_sharding", "results/attempts/run4/20260101T000000-1/attempt.json"):
        assert part in text
