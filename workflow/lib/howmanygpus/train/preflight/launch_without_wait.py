"""Start the processes of a run without wait; train.start.launch does the work."""

from howmanygpus.train.start.launch import RunModule, collect_predictions, main, verify_inputs

WITHOUT_WAIT = RunModule("howmanygpus.train.preflight.without_wait", verify_inputs, collect_predictions)

if __name__ == "__main__":
    main(work=WITHOUT_WAIT)
