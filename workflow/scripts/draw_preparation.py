"""Draw the speed and the quality of preparing a data set."""

from howmanygpus.base.requests import read_request
from howmanygpus.report.files import read_table
from howmanygpus.report.preparation import draw
from howmanygpus.report.style import save_figure


def main() -> None:
    request = read_request()
    save_figure(draw(read_table(request.input.table)), request.output.svg, request.output.png)


if __name__ == "__main__":
    main()
