"""The report's categories stand in the order of the questions that a reader asks."""

import re

import pytest

from helpers.messages import says
from howmanygpus.report.categories import CATEGORIES, number_category
from howmanygpus.report.figures import describe_figure, list_figures
from howmanygpus.report.tables import describe_table, list_tables
from project import ROOT


def test_names_sort_in_the_order_of_the_questions():
    """Snakemake sorts categories by name."""
    numbered = [number_category(name) for name in CATEGORIES]
    assert sorted(numbered) == numbered


def test_every_figure_and_table_has_a_category_of_the_report():
    named = {describe_figure(name).category for name in list_figures()}
    named |= {describe_table(name).category for name in list_tables()}
    assert named == set(CATEGORIES)


def test_rules_name_categories_by_their_place_alone():
    texts = [path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk")]
    places = [place for text in texts for place in re.findall(r"\bcategory=(.*)", text)]
    assert len(places) > 5 and all("number_category(" in place for place in places)


def test_an_unknown_category_is_refused_with_those_that_exist():
    with pytest.raises(ValueError) as refused:
        number_category("Speed")
    assert says(str(refused.value), "Speed", "Scaling")
