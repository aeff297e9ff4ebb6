"""Labels of images that have any number of them, such as `Effusion|Mass`, or the presence of one of these findings."""

from howmanygpus.prepare.sources import OptionError


class Findings:
    """Turns the texts of a label table into labels.

    classes: the known labels. nothing: the text of an image without labels. finding: one of the classes, which an
    image has (1) or has not (0); None keeps all classes.
    """

    def __init__(self, classes: tuple[str, ...], separator: str, nothing: str, finding: str | None):
        if finding is not None and finding not in classes:
            raise OptionError("finding", finding, "is no label of this data set", f"choose from {', '.join(classes)}")
        self._numbers = {name: number for number, name in enumerate(classes)}
        self._separator, self._nothing, self._finding = separator, nothing, finding
        self.multi_label = finding is None
        self.classes = classes if finding is None else (f"no {finding}", finding)

    def label(self, text: str) -> int | tuple[int, ...]:
        """Raise KeyError for an unknown label."""
        numbers = tuple(sorted(self._numbers[name] for name in split_text(text, self._separator, self._nothing)))
        return numbers if self._finding is None else int(self._numbers[self._finding] in numbers)


def split_text(text: str, separator: str, nothing: str) -> list[str]:
    """Names of the labels in a text; `nothing` is the text of an image without labels."""
    names = (name.strip() for name in text.split(separator))
    return [name for name in names if name and name != nothing]
