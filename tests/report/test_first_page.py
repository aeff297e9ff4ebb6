"""The report's first page leads from one sentence to its reasons, and shows data as text, wherever it comes from."""

import re
import warnings
from html.parser import HTMLParser
from types import SimpleNamespace

import jinja2
import pytest
from docutils.core import publish_parts

from helpers.answers import make_facts
from helpers.decisions import around, priced, repeat
from helpers.first_page import PAGE
from howmanygpus.registry import FRAMEWORKS, differ_by_one_letter
from howmanygpus.report.answer.texts import HEIGHT, render_answer, render_overview, render_screen
from howmanygpus.report.pages.first_page import read_first_page, render_first_page

PROGRAM = {"input": "program", "unit": "tokens", "quality": None, "parity": "not_checked", "model": "mine"}
DISTURBED = {"disturbed": True, "health": "vm: a device is hot", "run_dir": "results/runs/x"}
FEW = [row for name in ("a", "b") for n in (1, 2, 4) for row in repeat(around(100 / n**0.3), name, num_gpus=n)]
CASES = {
    "demo": make_facts(*FEW),
    "priced": make_facts(*priced([dict(row) for row in FEW])),
    "many": make_facts(*[row for name in "abcdefghijkl" for n in (1, 2) for row in repeat(around(90 / n), name, n)]),
    "program": make_facts(*[row | PROGRAM for row in FEW], thresholds=()),
    "refused": make_facts(*[row | DISTURBED for row in FEW]),
    "refused program": make_facts(*[row | PROGRAM | DISTURBED for row in FEW], thresholds=()),
    "nothing": make_facts({"framework": "a", "status": "crashed", "reason": "it ended"}),
    "two machines": make_facts(*FEW, *[row | {"device": "other"} for row in FEW]),
}
CODES = {"kind", "clock", "limit", "unit", "placement", "measure", "status", "device", "metric"}
"""Keys of facts whose texts are the workflow's own."""
FIGURE = "PHN2Zy8+\n"


class Page(HTMLParser):
    """Collects the text in elements, the tags and the addresses of a page, and whether elements are closed in turn."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.addresses, self.open, self.texts, self.marked = [], [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.addresses += [given[name] for name in ("src", "href", "action") if name in given]
        if tag not in ("img", "br"):
            self.open.append(tag)
        if given.get("class") == "recommended":
            self.marked.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append((self.open[-1] if self.open else "", text))
        if self.open[-1:] == ["td"] and self.marked:
            self.marked[-1] += f" {text}"

    def find(self, tag):
        return [text for open_tag, text in self.texts if open_tag == tag and text.strip()]


def render(facts, **figures):
    return render_first_page({facts["study"]: facts}, figures or {facts["study"]: FIGURE}, None, {})


@pytest.mark.parametrize("case", CASES)
def test_a_page_has_one_sentence_in_large_type_for_each_decision_and_marks_its_row(case):
    facts = CASES[case]
    html = render(facts)
    page = Page(html)
    recommended = [each["recommended"] for each in facts["decisions"]]
    sentences = page.find("h2")
    assert len(sentences) == len(recommended)
    for sentence, best in zip(sentences, recommended, strict=True):
        assert (best is None) == sentence.startswith("No recommendation")
        assert best is None or f"{best['num_gpus']} x {best['device']}, {best['series']}, " in sentence
    marked = [best for best in recommended if best]
    assert len(page.marked) == len(marked)
    for row, best in zip(page.marked, marked, strict=True):
        assert row.split()[:2] == [str(best["num_gpus"]), best["series"]] and "recommended" in row
    assert all(2 <= html.count("<tr", *span) <= 9 for span in find_tables(html))
    assert facts["unit"] == "images" or not re.search("image|accuracy", " ".join(text for _, text in page.texts[1:]))
    assert [heading for heading in page.find("summary") if "doubt" in heading or heading == "Data and devices"]


def find_tables(html):
    return [(found.start(), found.end()) for found in re.finditer("<table>.*?</table>", html, re.DOTALL)]


def test_the_gravest_doubt_and_its_command_stand_before_what_is_folded():
    (decision,) = CASES["refused"]["decisions"]
    html = render(CASES["refused"])
    first = decision["doubts"][0]
    assert first["run_next"] and f"<code>{first['run_next'][0]}</code>" in html
    assert html.index(f"<code>{first['run_next'][0]}</code>") < html.index("<details>")
    assert html.count(f"<code>{first['run_next'][0]}</code>") == 1
    assert f"{len(decision['doubts']) - 1} more doubt" in html


def test_a_gravest_doubt_without_a_command_is_followed_by_the_first_that_has_one():
    facts = make_facts(*FEW)
    (decision,) = facts["decisions"]
    doubt = {"kind": "x", "text": "Something.", "facts": {}}
    decision["doubts"] = [doubt | {"run_next": []}, doubt | {"run_next": ["repeats: 9"]}]
    html = render(facts)
    assert html.index("<code>repeats: 9</code>") < html.index("<details>")


@pytest.mark.parametrize("case", CASES)
def test_a_page_needs_nothing_from_elsewhere(case):
    page = Page(render(CASES[case]))
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in page.addresses)
    assert "script" not in page.tags and "link" not in page.tags
    styles = " ".join(page.find("style"))
    assert "url(" not in styles and "@import" not in styles


def mark(value, suffix, key=None):
    """Return facts whose texts all end with a suffix, apart from the workflow's own."""
    if isinstance(value, dict):
        return {name: each if name in CODES else mark(each, suffix, name) for name, each in value.items()}
    if isinstance(value, list):
        return [mark(each, suffix, key) for each in value]
    return value + suffix if isinstance(value, str) else value


@pytest.mark.parametrize("case", CASES)
def test_what_data_name_is_text_wherever_it_stands(case):
    """An address, a script or an end of a line in a name is shown, and does nothing."""
    suffix = "<i onclick='x'>&\"\N{LINE SEPARATOR}\N{NEXT LINE}\n\n.. image:: http://x.y/z.png\n" + "long " * 4000
    facts = mark(CASES[case], suffix)
    facts["details"] |= {"causes": [{"sentence": suffix, "remedy": suffix, "run_next": suffix}]}
    facts["batch_script"] = {"of": facts["decisions"][0]["of"], "path": suffix, "text": suffix}
    page = render_first_page({"s": facts, suffix: None}, {"s": FIGURE}, None, {})
    is_escaped, num_shown = "<i onclick" not in page, page.count("&lt;i onclick=")
    assert is_escaped and num_shown > 10
    config = {"studies": {}, "sources": {}, "first_page": page, "concurrency": "", "workflow_version": ""}
    text = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(PAGE.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"halt_level": 2, "report_level": 2}
        body = publish_parts(
            text.render(snakemake=SimpleNamespace(config=config)), writer_name="html", settings_overrides=options
        )["html_body"]
    read = Page(body)
    assert "i" not in read.tags and "pre" in read.tags
    assert all(address.startswith(("#", "data:")) for address in read.addresses)


def test_several_studies_have_a_card_each_that_leads_to_their_page():
    answers = {"one": CASES["demo"], "two": CASES["refused"], "three": None}
    page = Page(render_first_page(answers, {}, None, {}))
    assert [address for address in page.addresses if address.startswith("#")] == [f"#answer-{i}" for i in (1, 2, 3)]
    assert page.tags.count("article") == 3
    assert Page(render_first_page({"one": CASES["demo"]}, {}, None, {})).addresses == []


CONFIG = {"frameworks": ["a", "b"], "variants": {"base": {}}, "inputs": ["png"], "num_nodes": None}
CONFIG |= {"precision": ["fp32", "bf16"], "per_device_batch_size": [8, 16], "num_gpus": [1, 2, 4]}


@pytest.mark.parametrize(
    ("changes", "words", "others"),
    [
        ({}, ("2 frameworks", "2 precisions", "8 and 16 images", "1, 2 and 4 devices"), ("variant", "input", "node")),
        (
            {"frameworks": ["a"], "precision": ["fp32"], "per_device_batch_size": [8]},
            ("a on 1, 2 and 4",),
            ("Compares",),
        ),
        ({"variants": {"x": {}, "y": {}}, "num_nodes": [1, 2]}, ("2 variants", "1 and 2 nodes"), ("input",)),
        ({"program": {"unit": "tokens"}, "frameworks": []}, ("8 and 16 tokens",), ("framework", "images")),
        ({"num_gpus": [1], "per_device_batch_size": [8]}, ("1 device",), ("devices",)),
    ],
    ids=["grid", "one curve", "nodes", "program", "one device"],
)
def test_a_card_says_what_its_study_compares(changes, words, others):
    page = render_first_page({"s": CASES["demo"], "t": None}, {}, None, {"s": CONFIG | changes, "t": CONFIG})
    card = " ".join(re.search('<a class="card".*?</a>', page, re.DOTALL)[0].split())
    card = card.partition("<b>")[0]
    assert all(word in card for word in words) and not any(word in card for word in others)


def test_numbers_of_devices_without_a_row_are_named_below_the_table():
    counts = sorted({one["num_gpus"] for one in CASES["demo"]["decisions"][0]["counts"]})
    for planned, missing in ((counts, ""), ([*counts, 64, 128], "64 and 128 devices")):
        page = render_first_page({"s": CASES["demo"]}, {}, None, {"s": CONFIG | {"num_gpus": planned}})
        (caption,) = re.findall("<caption>(.*?)</caption>", page, re.DOTALL)
        assert missing in caption and ("compared" in caption) == bool(missing)


@pytest.mark.parametrize("case", ["refused", "refused program", "nothing"])
def test_a_page_of_several_studies_says_once_why_nothing_is_recommended(case):
    (decision,) = CASES[case]["decisions"]
    page = render_first_page({"s": CASES[case], "t": None}, {"s": FIGURE}, None, {})
    assert page.count(decision["refusal"]) == 1
    assert ("<img" in page) == bool(decision["configurations"]), "a figure of nothing only has the refusal"


def test_each_framework_whose_name_differs_by_one_letter_says_what_it_is():
    alike = {one for one in FRAMEWORKS for other in FRAMEWORKS if differ_by_one_letter(one, other)}
    assert alike == {name for name, framework in FRAMEWORKS.items() if framework.clause}


def test_names_that_differ_by_one_letter_are_explained_once_where_both_occur():
    alike, apart = [name for name in FRAMEWORKS if "_d" in name], ["pytorch_ddp", "jax_sharding"]
    for names in (alike, apart):
        facts = make_facts(*[row for name in names for row in repeat(around(100), name)])
        texts = render(facts), render_answer(facts, "txt"), render_answer(facts, "md")
        for text in texts:
            words = [FRAMEWORKS[name].clause for name in names if FRAMEWORKS[name].clause]
            assert [" ".join(text.split()).count(each) for each in words] == [names is alike] * len(words)


def test_nothing_is_read_without_a_report(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "answer.json").write_text("this is not read")
    assert read_first_page({"s": {}}, ["snakemake", "available"], tmp_path, tmp_path) == ""
    page = read_first_page({"t": {}}, ["snakemake", "--report=x.html"], tmp_path, tmp_path)
    assert Page(page).tags.count("article") == 1, "a study without an answer is on the page"


@pytest.mark.parametrize("case", CASES)
def test_a_screen_has_25_lines_and_the_text_goes_on_where_it_says(case):
    facts = CASES[case]
    screen, text = render_screen(facts), render_answer(facts, "txt")
    assert len(screen.splitlines()) <= HEIGHT == 25
    assert text.startswith(screen.rstrip("\n"))
    assert f"The rest is in results/tables/{facts['study']}/answer.txt" in screen
    assert find_repeated(text) == []


def find_repeated(text):
    """Return the statements of an answer that stand in it more than once."""
    statements = re.split(r"\n(?=\S)|\n\n", text)
    whole = [" ".join(each.split()) for each in statements]
    return [each for each in whole if len(each) > 30 and whole.count(each) > 1]


@pytest.mark.parametrize("number", [2, 9, 60])
def test_the_screen_of_several_studies_has_25_lines(number):
    screen = render_overview([CASES["demo"] | {"study": f"s{i}"} for i in range(number)], None)
    assert len(screen.splitlines()) <= HEIGHT and "s0: Use 1 x cpu" in screen
    assert "The rest is in results/tables/answer.txt" in screen and screen.startswith(f"{number} studies")
