"""
The frameworks, sorted into families: a family is a way to build a network, and its strategies are ways to train it.

A family's folder contains
- `layers/`: one file per layer. Every family has the same layers with the same arguments, and leaves nothing to its
  framework's defaults. They are imported when a network has them, so that a new or changed layer reruns nothing else.
- `walker.py`: builds networks from their layouts (measure/models/layout.py). That of PyTorch shares no code
  with the others: the parity gate's reference uses it, and must not be wrong where all families are.
- `family.py`: what all strategies share, such as the network around a model, weights, optimizers and precision.
- one file per strategy, whose BACKEND fulfils the contract in measure/loop/backend.py.
- `loader.py` or the like: the framework's own loader of images, for studies that compare loaders.
- `losses.py`: the loss of a step. `number_formats.py`: formats of numbers, read back for the parity gate.
- `own_model.py`, if users can write a model for the family: how it is built from their file.

Files beside the families: horovod.py and forward_pass.py, which several families share, and geometry.py, which defines
the sizes and padding that layers take.

The first argument of a layer that has weights is a `LayerContext` (`layers/context.py`). It holds the kind of batch
normalisation and what a family's framework needs besides, for example flax's dtype. In Keras a layer is called with its
input and a name; in the other families a network keeps each layer as an attribute of that name. Padding is given
explicitly, in pixels on each side. Batch normalisation keeps the biased variance in every family.
"""
