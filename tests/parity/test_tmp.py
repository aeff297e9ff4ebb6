import os

import pytest

from parity.cells import cells_on, supports

NAMES = os.environ["FW"].split(",")


@pytest.mark.parametrize("framework", NAMES)
@pytest.mark.parametrize("n", [int(x) for x in os.environ.get("N", "1").split(",")])
def test_print(framework, n, judge_cell):
    cells = cells_on(n, framework)
    for key, cell in cells.items():
        if not supports(framework, cell):
            continue
        v = judge_cell(framework, cells, key, n)
        rows = {r["check"]: r for r in v["checks"]}
        noise = rows.get("noise")
        worst = max(
            ((r["value"] if r["value"] is not None else 9e9) / r["tolerance"], r["check"])
            for r in v["checks"]
            if r["tolerance"] and r["check"] != "noise"
        )
        print(
            "RES",
            framework,
            n,
            key,
            v["status"],
            v["reason"],
            "worst %.2g %s" % worst,
            ("noise ratio %.3g %s" % (0.1 / noise["value"], noise["detail"])) if noise else "",
            rows["numbers"]["detail"] if "numbers" in rows else "",
        )
