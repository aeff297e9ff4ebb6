"""Start the processes of a run without wait; measure.launch.launch does the work."""

from howmanygpus.measure.launch.launch import RunModule, collect_predictions, main, verify_inputs

WITHOUT_WAIT = RunModule("howmanygpus_tools.check_gpu.without_wait", verify_inputs, collect_predictions)

if __name__ == "__main__":
    main(work=WITHOUT_WAIT)
