"""Write the generated tables of the documents from the schemas, the registry and the published numbers."""

import argparse

from howmanygpus.files import write_text_atomic
from howmanygpus.study.references import DOCUMENTS, render_document


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    texts = {path: render_document(path.read_text(), str(path)) for path in DOCUMENTS}
    for path, written in texts.items():
        if not path.exists() or path.read_text() != written:
            write_text_atomic(path, written)
            print(f"{path} was written")


if __name__ == "__main__":
    main()
