"""Complete the records of jobs that used devices, and list those that concern a study, in one file for its tables."""

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_json_atomic
from howmanygpus.site.jobs.ledger import RUN, complete_and_list_jobs


def main() -> None:
    request = read_request()
    study = request.wildcards.study
    # Jobs of other studies are part of an allocation that this study shares with them.
    listed = {
        path: record
        for path, record in complete_and_list_jobs().items()
        if record["name"].startswith(f"{study}/")
        or (record["kind"] != RUN and study in record.get("shares", [study]))
        or record.get("job", {}).get("packed")
    }
    write_json_atomic(request.output.ledger, listed)


if __name__ == "__main__":
    main()
