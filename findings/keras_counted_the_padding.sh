#!/usr/bin/env bash
# Finding:  The accuracy that Keras 3.11.0 reports for texts that Embedding(mask_zero=True) masks counts the padding, as
#           if it were predicted; in 3.15.1 the mask applies to metrics, too. The loss leaves the padding out in both.
#           Of texts of 4 words padded to 10, the old accuracy is that of 10 and the new one that of 4.
# Packages: numpy==2.3.5 jax==0.7.0 jaxlib==0.7.0 absl-py==2.3.1 rich==14.0.0 namex==0.1.0 h5py==3.14.0 optree==0.17.0 ml-dtypes==0.5.1 packaging==25.0
# Topic:    silent changes in new releases
# Source:   keras/src/metrics/reduction_metrics.py, MeanMetricWrapper.update_state: 3.11.0 applies the mask if there is
#           a sample_weight alone, which compile(metrics=...) does not pass.
# Guess:    loss and metrics leave masked steps out, in both versions (75 %).
# Hurts:    whoever compares accuracies of taggers or translators across these versions: the same weights have another.
# Here:     no workload is a text or masks its inputs
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 3.11.0 3.15.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "keras==$version"
done
cat > accuracy.py <<'P'
import os
import sys

sys.path.insert(0, sys.argv[1])
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
words, tags = random.integers(1, 10, (32, 10)), random.integers(0, 3, (32, 10))
words[:, 4:] = 0
model = keras.Sequential([keras.layers.Embedding(10, 4, mask_zero=True), keras.layers.Dense(3, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
loss, accuracy = model.evaluate(words, tags, verbose=0)
predicted = model.predict(words, verbose=0)
right = predicted.argmax(-1) == tags
losses = -np.log(np.take_along_axis(predicted, tags[..., None], -1))[..., 0]
print(f"{accuracy:.4f} {right.mean():.4f} {right[:, :4].mean():.4f} {loss:.4f} {losses[:, :4].mean():.4f}")
P
old=$("$python" accuracy.py 3.11.0 2> old.log)
new=$("$python" accuracy.py 3.15.1 2> new.log)
echo "accuracy, that of all steps, that of the words; loss, that of the words: 3.11.0: $old; 3.15.1: $new"
"$python" - "$old" "$new" <<'P'
import sys

old, new = ([float(each) for each in text.split()] for text in sys.argv[1:])
holds = old[0] == old[1] != old[2] and new[0] == new[2] != new[1]
sys.exit(not (holds and all(abs(each[3] - each[4]) < 2e-4 for each in (old, new))))
P
