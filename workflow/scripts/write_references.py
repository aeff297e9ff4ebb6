"""Write the generated tables of the documents from the schemas, the registry and the published numbers."""

import argparse

from howmanygpus.files import write_text_atomic
from howmanygpus.plan.references import DOCUMENTS, render_document


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in DOCUMENTS:
        text = path.read_text()
        written = render_document(text, str(path))
        if written != text:
            write_text_atomic(path, written)
            print(f"{path} was written")


if __name__ == "__main__":
    main()
