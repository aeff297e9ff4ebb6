"""A verdict decides whether the runs that wait for it are started."""

from project import ROWS, study


def read_statuses(project):
    return {(row["framework"], row["num_gpus"]): (row["status"], row["reason"]) for row in project.read_rows()}


def test_a_framework_that_fails_is_trained_only_where_parity_is_not_required(project, environment_python):
    environment_python("pytorch-cpu")  # The reference needs it. A fake's random predictions do not match it.
    project.write_config(small=study(frameworks=["sleeping"], parity="required"))
    project.snakemake(*ROWS, "write_parity_page")
    for status, reason in read_statuses(project).values():
        assert status == "failed_parity"
        assert reason.startswith("evaluation on 1 devices") and "results/parity/" in reason
    assert "evaluation" in project.read("results/parity/parity.html")

    project.write_config(small=study(frameworks=["sleeping"], parity="report"))
    assert project.planned_runs() == []
    (project.folder / "results" / "runs" / "small").rename(project.folder / "set_aside")
    project.snakemake(*ROWS)
    assert {status for status, _ in read_statuses(project).values()} == {"completed"}
    assert "failed" in project.read("results/tables/small/runs.tsv"), "the verdict stands beside the numbers"

    project.edit("workflow/lib/howmanygpus/report/parity/judge.py", "\nNEW = 1\n")
    assert "check_parity" in project.planned() and project.planned_runs() == [], "a changed gate trains nothing"
