"""Write a page for each table that has something to show."""

from howmanygpus.base.requests import read_request
from howmanygpus.files import atomic_folder
from howmanygpus.paths import TABLES
from howmanygpus.report.files import read_texts
from howmanygpus.report.pages.table_pages import ALL, collect, is_worth_a_page, render


def main() -> None:
    request = read_request()
    with atomic_folder(request.output.pages) as folder:
        for path in request.input.tables:
            table, scope = path.stem, ALL if path.parent == TABLES else path.parent.name
            rows = read_texts(path).to_dict("records")
            if is_worth_a_page(table, rows):
                page = folder / scope / f"{table}.html"
                page.parent.mkdir(exist_ok=True)
                page.write_text(render(collect(table, str(path), rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
