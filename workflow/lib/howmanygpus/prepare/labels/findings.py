"""Labels of images that have any number of them, such as `Effusion|Mass`, or the presence of one of these findings."""

from collections.abc import Iterable

from howmanygpus.prepare.sources import OptionError

USUAL_SEPARATORS = ("|", ";", ",")
MANY = 0.05
"""If more than this fraction of labelled images has another usual separator, that is probably no accident."""


class LabelParser:
    """Turns the texts of a label table into labels.

    classes: the known labels. nothing: the text of an image without labels. finding: one of the classes, which an
    image has (1) or lacks (0); None keeps all classes. unknown: prefix of the name of a label for which it is not known
    whether the image has it; None if there is no such label.
    """

    def __init__(
        self, classes: tuple[str, ...], separator: str, nothing: str, finding: str | None, unknown: str | None = None
    ):
        if finding is not None and finding not in classes:
            raise OptionError("finding", finding, "is no label of this data set", f"choose from {', '.join(classes)}")
        self._numbers = {name: number for number, name in enumerate(classes)}
        self._separator, self._nothing, self._finding, self._unknown = separator, nothing, finding, unknown
        self.multi_label = finding is None
        self.classes = classes if finding is None else (f"no {finding}", finding)

    def label(self, text: str) -> int | tuple[int, ...]:
        """Return the labels as Entry has them. Raises KeyError for a label that is not one of the classes."""
        names = split_text(text, self._separator, self._nothing)
        numbers = tuple(sorted({self._number_label(name) for name in names}))
        return numbers if self._finding is None else int(self._numbers[self._finding] in numbers)

    def _number_label(self, name: str) -> int:
        """Return the number of a label, or its complement if it is unknown whether the image has it."""
        known = strip_unknown(name, self._unknown)
        return self._numbers[known] if known == name else ~self._numbers[known]

    def is_known(self, text: str) -> bool:
        """Return whether the table says if the image has the finding; always true if all labels are kept."""
        names = split_text(text, self._separator, self._nothing)
        return self._finding is None or all(
            name == self._finding or strip_unknown(name, self._unknown) != self._finding for name in names
        )


def split_text(text: str, separator: str, nothing: str) -> list[str]:
    """Return the names of the labels in a text; `nothing` is the text of an image without labels."""
    names = (name.strip() for name in text.split(separator))
    return [name for name in names if name and name != nothing]


def remark_on_separator(texts: Iterable[str], separator: str, nothing: str) -> tuple[str, ...]:
    """Return a remark if the separator is in no text of a table, and another usual one is in many."""
    labelled = [text for text in texts if split_text(text, separator, nothing)]
    if any(separator in text for text in labelled):
        return ()
    for other in USUAL_SEPARATORS:
        found = [text for text in labelled if other in text]
        if len(found) > MANY * len(labelled):
            return (
                f"separator: {separator!r} is in the labels of no image, and {other!r} is in those of {len(found)} of "
                f"{len(labelled)}, such as {found[0]}; if it separates labels, give `separator: {other!r}`",
            )
    return ()


def strip_unknown(name: str, unknown: str | None) -> str:
    """Return the name of a label without the prefix `unknown`."""
    return name.removeprefix(unknown).strip() if unknown else name
