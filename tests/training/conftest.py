"""Real runs that several tests look at, because most of their time is the start of the framework."""

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from training.asked import complete, list_in_turn
from training.launching import train, train_in_turn


@pytest.fixture(scope="session")
def run(environment_python, tmp_path_factory):
    """Return a function that does each distinct run once, with those that share its start."""
    done = {}

    def name(framework, num_gpus, request):
        return repr((framework, num_gpus, sorted(request.items(), key=repr)))

    def get(framework, num_gpus=1, **request):
        key = name(framework, num_gpus, request)
        if key not in done:
            folder = tmp_path_factory.mktemp(f"{framework}{num_gpus}_")
            python = environment_python(FRAMEWORKS[framework].environments["cpu"])
            together = list_in_turn(framework, num_gpus)
            if request in together:
                requests = [complete(framework, num_gpus, each) for each in together]
                finished = train_in_turn(python, folder, framework, requests)
                done.update(zip((name(framework, num_gpus, each) for each in together), finished, strict=True))
            else:
                done[key] = train(python, folder, framework, **complete(framework, num_gpus, request))
        assert done[key].exit_status == 0, done[key].output[-3000:]
        return done[key]

    return get
