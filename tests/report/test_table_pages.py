"""The page of a table sorts and filters it, saves it as it was, and needs nothing else."""

import json
import re

import pandas as pd
import pytest

from helpers.browser import needs_chromium, open_page
from howmanygpus.report.categories import CATEGORIES
from howmanygpus.report.files import read_texts, write_table
from howmanygpus.report.pages import table_pages
from howmanygpus.report.tables import describe_table, list_merged, list_tables

HOSTILE = """</script></td><img src=x onerror="nothing.here()"> & 'it' "said"\nin two lines"""
NUMBERS = [5.25, 1234.5678, float("nan"), float("inf"), 0.00012345]


@pytest.fixture
def made(tmp_path):
    """Return the page of a table as a file, and the file of the table."""
    table = pd.DataFrame(
        {
            "study": "s",
            "framework": ["jax_sharding", "pytorch_ddp", "mxnet_gluon", "pytorch_ddp", "chainer_mn"],
            "num_gpus": [1, 1, 2, 4, 16],
            "images_per_s_median": NUMBERS,
            "finding": ["", HOSTILE, "", "a\ttab", ""],
            "unit": "tokens",
            "remedy": "",
        }
    )
    path, page = tmp_path / "health.tsv", tmp_path / "health.html"
    write_table(path, table)
    facts = table_pages.collect("health", "results/tables/health.tsv", read_texts(path).to_dict("records"))
    page.write_text(table_pages.render(facts))
    return page, path


def operate(page, scratch, script):
    """Open a page, run a script in it that returns a value, and return this value. Nothing may fail or be requested."""
    end = f"document.title = JSON.stringify(await (async () => {{ {script} }})()); "
    operated = page.with_name("operated.html")
    operated.write_text(page.read_text().replace("</body>", f'<script type="module">{end}</script></body>'))
    content, console, requests = open_page(operated, scratch)
    assert console == [] and requests == []
    (title,) = re.findall("<title>(.*?)</title>", content, re.DOTALL)
    return json.loads(title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


HELPERS = """
const list = (column) =>
  [...document.querySelectorAll("#rows tbody tr:not([hidden])")].map((row) => row.cells[column].textContent);
const click = (title) =>
  [...document.querySelectorAll("#rows thead button")].find((each) => each.textContent === title).click();
const set = (field, value) => {
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
};
"""


@needs_chromium
def test_numbers_are_sorted_as_numbers_and_missing_ones_are_last(made, tmp_path):
    script = "click('images_per_s_median'); const up = list(1); click('images_per_s_median'); return [up, list(1)];"
    up, down = operate(made[0], tmp_path, HELPERS + script)
    assert up == ["16", "1", "1", "4", "2"] and down == ["4", "1", "1", "16", "2"]


@needs_chromium
def test_words_and_lists_filter_the_rows(made, tmp_path):
    script = """
    const search = document.getElementById("search"), [frameworks] = document.querySelectorAll("#filters select");
    set(search, "SAID");
    const found = list(1);
    set(search, "");
    set(frameworks, "=pytorch_ddp");
    return [found, list(1), document.getElementById("count").textContent, document.images.length];
    """
    by_word, by_list, count, num_images = operate(made[0], tmp_path, HELPERS + script)
    assert by_word == ["1"] and by_list == ["1", "4"] and "2" in count and num_images == 0


@needs_chromium
def test_the_saved_file_is_the_table_whatever_is_sorted(made, tmp_path):
    script = """
    click("num_gpus"); click("num_gpus"); set(document.getElementById("search"), "jax");
    let saved = null;
    URL.createObjectURL = (blob) => { saved = blob; return "#"; };
    document.getElementById("save").click();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return await saved.text();
    """
    assert operate(made[0], tmp_path, HELPERS + script) == made[1].read_text()


def test_a_page_names_no_other_file_and_no_place_in_the_network(made):
    text = made[0].read_text()
    assert not re.findall(r"(?:src|href)=|https?:|@import|url\(", text.replace("&lt;img src=x", ""))
    assert "<img" not in text


def test_columns_have_units_and_those_with_one_value_are_named_once(made):
    facts = table_pages.collect("health", "x.tsv", read_texts(made[1]).to_dict("records"))
    assert [column["title"] for column in facts["columns"]][:2] == ["framework", "num_gpus"]
    units = {column["title"]: column["unit"] for column in facts["columns"]}
    assert units["images_per_s_median"] == "tokens/s" and units["framework"] == ""
    assert {each["title"]: each["value"] for each in facts["common"]} == {"study": "s", "unit": "tokens", "remedy": ""}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("train_s", "s"),
        ("device_s_per_image", "device-s/image"),
        ("memory_gib_highest", "GiB"),
        ("error_frac", "share of 1"),
        ("status", ""),
        ("repeats", ""),
        ("hours", "h"),
    ],
)
def test_the_name_of_a_column_tells_its_unit(name, unit):
    assert table_pages.find_unit(name) == unit


def test_every_table_of_the_report_has_a_description_and_a_category():
    shown = {name for name in list_tables() if describe_table(name).in_report} | set(list_merged())
    for name in (*shown, *table_pages.OTHERS):
        assert len(table_pages.describe(name)[0]) > 10 and "report." not in table_pages.describe(name)[0], name
        assert table_pages.name_category(name) in CATEGORIES, name


def test_a_table_without_rows_or_without_what_it_compares_has_no_page():
    one, other = {"per_device_batch_size": "8"}, {"per_device_batch_size": "16"}
    assert table_pages.is_worth_a_page("scaling", [one]) and not table_pages.is_worth_a_page("scaling", [])
    assert table_pages.is_worth_a_page("batch_sizes", [one, other])
    assert not table_pages.is_worth_a_page("batch_sizes", [one, one])
