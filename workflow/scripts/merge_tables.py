"""Join the tables of all studies that have the same name. A record that several studies share has one row."""

from howmanygpus.base.requests import read_request
from howmanygpus.report.rows import merge_tables


def main() -> None:
    request = read_request()
    for table in request.output.tables:
        merge_tables([table.parent / study / table.name for study in request.values.studies], table)


if __name__ == "__main__":
    main()
