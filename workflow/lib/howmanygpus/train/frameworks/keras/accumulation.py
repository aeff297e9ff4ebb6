"""Gradient accumulation in the Keras family: one optimizer step on the sum of the gradients of several batches."""

from collections.abc import Callable

import keras
import tensorflow as tf


def sum_over_parts(compute: Callable, images, labels, count: int) -> tuple:
    """Return the sums of what `compute` returns for each of `count` parts of a batch: a loss and a list of gradients.

    Each part waits for the one before. TensorFlow would otherwise compute them at the same time, in the memory that one
    batch of them all needs.
    """
    if count == 1:
        return compute(images, labels)
    size, loss, sums = images.shape[0] // count, None, None
    for part in range(count):
        with tf.control_dependencies([] if sums is None else sums):
            x, y = (tf.identity(tensor[part * size : (part + 1) * size]) for tensor in (images, labels))
        part_loss, gradients = compute(x, y)
        loss = part_loss if loss is None else loss + part_loss
        sums = gradients if sums is None else [total + one for total, one in zip(sums, gradients, strict=True)]
    return loss, sums


def accumulate_in_fit(model: keras.Model, count: int) -> None:
    """Have each step of fit add the gradients of `count` parts of its batch before it updates the weights.

    The optimizers' own gradient_accumulation_steps updates inside tf.cond, which strategies with several replicas
    refuse, and counts each part as a step of the learning rate's schedule.
    """

    def train_step(data: tuple) -> dict:
        images, labels = data

        def compute(x, y):
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), training=True) / count
                scaled = model.optimizer.scale_loss(loss)
            return loss, tape.gradient(scaled, model.trainable_weights)

        loss, gradients = sum_over_parts(compute, images, labels, count)
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        model._loss_tracker.update_state(loss * num_replicas, sample_weight=tf.shape(labels)[0])
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.get_metrics_result()

    model.train_step = train_step
