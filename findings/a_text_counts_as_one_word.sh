#!/usr/bin/env bash
# Finding:  torchinfo.summary() counts the multiply-adds of a linear layer once for each text and not for each word, or
#           patch of an image: those of a layer of nn.TransformerEncoderLayer as in ViT-B are 5 million, for 16 words as
#           for 160, and not 114 and 1,172. A convolution of one pixel, which does the same, counts each place. The
#           parameters of tied weights, as of input and output words, are counted twice. Nothing warns.
# Packages: torch==2.13.0 thop==0.1.1.post2209072238 torchinfo==1.8.0 ptflops==0.7.5 fvcore==0.1.5.post20221221
# Topic:    counting work
# Source:   torchinfo/layer_info.py, calculate_macs: the weights of layers that have no Conv in their name are
#           multiplied by the first dimension of the output alone, which is the batch; parameters are added up by layer.
# Guess:    a linear layer is counted for each word (confidence 95 %; written after it was seen).
# Hurts:    comparisons of transformers, mixers and heads of segmentation with convolutional networks, by a factor of
#           the length; and utilisations that are computed from it.
# Here:     multiply-adds are computed from the layers' shapes, not counted by a tool
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > words.py <<'P'
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
import torchinfo
from torch import nn

WIDTH = 768


class Words(nn.Module):
    """Input and output words with the same weights."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, words):
        return self.out(self.embed(words))


def count(layer, *shape):
    return torchinfo.summary(layer, input_data=torch.rand(shape), verbose=0).total_mult_adds


lengths = 16, 160
layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, batch_first=True)
right = [length * 12 * WIDTH**2 + 2 * length**2 * WIDTH for length in lengths]
counted = [count(layer, 1, length, WIDTH) for length in lengths]
linear = [count(nn.Linear(WIDTH, WIDTH, bias=False), 1, length, WIDTH) / (length * WIDTH**2) for length in lengths]
pixels = [count(nn.Conv1d(WIDTH, WIDTH, 1, bias=False), 1, WIDTH, length) / (length * WIDTH**2) for length in lengths]
tied = torchinfo.summary(Words(), input_data=torch.zeros(1, 2, dtype=torch.long), verbose=0).total_params
millions = [[round(value / 1e6) for value in values] for values in (counted, right)]
print(f"torchinfo {torchinfo.__version__}: {millions[0]} million multiply-adds for 16 and 160 words, by the shapes "
      f"{millions[1]}; of a linear layer {linear}, of the convolution {pixels} of them; 64,000 tied parameters are "
      f"{tied:,}")
sys.exit(not (counted[0] == counted[1] < 0.05 * right[0] and linear == [1 / 16, 1 / 160] and pixels == [1, 1]
              and tied == 128000))
P
"$python" words.py
