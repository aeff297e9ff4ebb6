"""Batch normalisation of the Keras family."""

from keras import KerasTensor, layers, ops

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext


class BatchNormalizationByBatch(layers.BatchNormalization):
    """Evaluates by the statistics of its batch on the device instead of the running ones."""

    def call(self, inputs, training=None, mask=None):
        if training:
            return super().call(inputs, training=True, mask=mask)
        x = ops.cast(inputs, "float32")
        mean, variance = ops.moments(x, axes=[0, 1, 2])
        y = ops.batch_normalization(x, mean, variance, -1, offset=self.beta, scale=self.gamma, epsilon=self.epsilon)
        return ops.cast(y, self.compute_dtype)


def batchnorm(context: LayerContext, x: KerasTensor, name: str, *, epsilon: float, momentum: float) -> KerasTensor:
    """momentum: weight of the old running statistic."""
    synchronized = context.batchnorm == "synchronized"
    layer = BatchNormalizationByBatch if context.eval_batchnorm == "batch" else layers.BatchNormalization
    return layer(epsilon=epsilon, momentum=momentum, synchronized=synchronized, name=name)(x)
