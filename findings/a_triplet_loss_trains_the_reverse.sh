#!/usr/bin/env bash
# Finding:  TripletLoss of sentence-transformers 5.0.0 to 5.3.0, at its defaults and with MANHATTAN, moves positives
#           away from the anchor and negatives towards it, and its loss falls to 0: at the end all ten negatives are
#           nearer than the positives. 6.2.0 trains the opposite, as 4.1.0 did. COSINE is right in both.
# Packages: torch==2.13.0 numpy==2.4.6 transformers==5.24.0 sentence-transformers==6.2.0
# Topic:    silent changes in new releases
# Source:   sentence_transformers/losses/TripletLoss.py of 5.3.0: TripletDistanceMetric.EUCLIDEAN is
#           pairwise_euclidean_sim(x, y), which util.py defines as the negative distance; 6.2.0 has a minus before it
#           (from 5.4.0 on), and 4.1.0 used pairwise_distance of PyTorch. Read in the files of 4.1.0, 5.0.0, 5.1.2,
#           5.2.0, 5.3.0, 5.4.0, 5.5.0 and 6.2.0.
# Guess:    a triplet loss that falls to 0 has the positives nearer (confidence 98 %).
# Hurts:    networks for search, faces or speakers trained in that year: the loss looks perfect, the network sorts in
#           the reverse, and the comparison with another loss is a comparison with its opposite.
# Here:     losses are cross entropies, and the gate compares them and their gradients among all frameworks
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old sentence-transformers==5.3.0
cat > triplets.py <<'P'
import sys
import warnings

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import sentence_transformers
import torch
from sentence_transformers.losses import TripletDistanceMetric, TripletLoss


class Table(torch.nn.Module):
    """Ten anchors, ten positives and ten negatives, each with a vector of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(30, 4)

    def forward(self, features):
        return {**features, "sentence_embedding": self.table(features["input_ids"]).mean(1)}


def train(metric):
    """Return how many positives are nearer than the negatives after training, and the loss."""
    model = Table()
    loss = TripletLoss(model, distance_metric=metric, triplet_margin=1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    columns = [{"input_ids": torch.arange(10)[:, None] + first, "attention_mask": torch.ones(10, 1, dtype=torch.long)}
               for first in (0, 10, 20)]
    for _ in range(300):
        optimizer.zero_grad()
        value = loss(columns, None)
        value.backward()
        optimizer.step()
    anchor, positive, negative = model.table.weight.reshape(3, 10, 4)
    if metric is TripletDistanceMetric.COSINE:
        anchor, positive, negative = (torch.nn.functional.normalize(part) for part in (anchor, positive, negative))
    return ((anchor - positive).norm(dim=1) < (anchor - negative).norm(dim=1)).sum().item(), round(value.item(), 3)


found = {name: train(getattr(TripletDistanceMetric, name)) for name in ("EUCLIDEAN", "MANHATTAN", "COSINE")}
print(f"sentence-transformers {sentence_transformers.__version__}: of 10 positives are nearer than the negatives, and "
      f"loss: {found}")
right = 0 if sys.argv[1] == "old" else 10
assert found["EUCLIDEAN"] == (right, 0) and found["MANHATTAN"] == (right, 0) and found["COSINE"][0] == 10
P
"$python" triplets.py old 2> /dev/null
"$python" triplets.py new 2> /dev/null
