"""ReLU of the Chainer family."""

import chainer
import chainer.functions as F


def relu(x: chainer.Variable) -> chainer.Variable:
    return F.relu(x)
