#!/usr/bin/env bash
# Finding:  BinaryClassificationEvaluator of sentence-transformers 6.1.0 gives a network that maps all texts to one
#           vector an accuracy and an F1 of 1.0 if the pairs that match come first in the file, and 0.4 and 0.57 if they
#           come last, since it cuts between pairs of equal score. In 6.2.0 they are 0.5 and 0.67 in any order. The
#           average precision is 0.5 in both.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 sentence-transformers==6.2.0
# Topic:    statistics and metrics
# Source:   sentence_transformers/sentence_transformer/evaluation/binary_classification.py: find_best_acc_and_threshold
#           sorts the pairs by score and tries a threshold after each (read in 5.0.0, 5.3.0 and 6.1.0); 6.2.0 leaves out
#           those whose next score is the same.
# Guess:    a network that cannot tell pairs apart has an accuracy of 0.5, in any order (confidence 97 %).
# Hurts:    the choice of the best checkpoint by this accuracy: a collapsed network wins, and so do embeddings of few
#           bits or low precision, which have ties; files of pairs are often sorted by label.
# Here:     no threshold is searched; measure/loop/predictions.py gives a tie to the first class, as argmax does, and
#           areas are scikit-learn's
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old sentence-transformers==6.1.0
cat > collapsed.py <<'P'
import sys
import warnings

is_old = sys.argv[1] != "new"
if is_old:
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import numpy as np
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.evaluation import BinaryClassificationEvaluator


class Collapsed(SentenceTransformer):
    """A network that gives every text the same vector."""

    def __init__(self):
        super().__init__(modules=[torch.nn.Identity()], similarity_fn_name="cosine", device="cpu")

    def encode(self, sentences, **settings):
        return np.ones((len(sentences), 4), dtype=np.float32)


LEFT, RIGHT = [f"text {i}" for i in range(10)], [f"other {i}" for i in range(10)]
found = {}
for order, labels in {"first": [1] * 5 + [0] * 5, "last": [0] * 5 + [1] * 5}.items():
    evaluator = BinaryClassificationEvaluator(LEFT, RIGHT, labels, similarity_fn_names=["cosine"])
    metrics = evaluator(Collapsed())
    found[order] = tuple(round(float(metrics[f"cosine_{name}"]), 2) for name in ("accuracy", "f1", "ap"))
print(f"sentence-transformers {sentence_transformers.__version__}: accuracy, F1 and average precision if all pairs "
      f"have one score, by where the matching ones stand: {found}")
assert found == ({"first": (1.0, 1.0, 0.5), "last": (0.4, 0.57, 0.5)} if is_old else
                 {"first": (0.5, 0.67, 0.5), "last": (0.5, 0.67, 0.5)})
P
"$python" collapsed.py old 2> /dev/null
"$python" collapsed.py new 2> /dev/null
