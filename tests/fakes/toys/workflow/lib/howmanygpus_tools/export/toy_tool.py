"""A toy tool: a file with the names of the runs."""


def write(records, folder, place):
    (folder / "runs.txt").write_text("".join(f"{record['name']}\n" for record in records))
