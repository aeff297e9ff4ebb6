#!/bin/bash
# A program that nobody can change: it prints its progress, and regular expressions of config.yaml find it.
# Usage: train.sh SAMPLES_PER_STEP DEVICES
for step in $(seq 1 40); do
    sleep "0.0$((4 / $2))"
    echo "iteration $step of 40: loss 0.$((100 - step))"
    if [ $((step % 20)) -eq 0 ]; then
        echo "epoch $((step / 20)): validation accuracy 0.$((step * 2))"
    fi
done
