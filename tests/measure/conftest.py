"""Real runs that several tests look at, because most of their time is the start of the framework."""

import pytest

from measure.asked import complete, list_in_turn


@pytest.fixture(scope="session")
def run(train_once):
    """Return a function that does each distinct run once, with those that share its start."""
    done = {}

    def name(framework, num_gpus, request):
        return repr((framework, num_gpus, sorted(request.items(), key=repr)))

    def get(framework, num_gpus=1, **request):
        key = name(framework, num_gpus, request)
        if key not in done:
            together = list_in_turn(framework, num_gpus)
            asked = together if request in together else [request]
            finished = train_once(framework, [complete(framework, num_gpus, each) for each in asked])
            done.update(zip((name(framework, num_gpus, each) for each in asked), finished, strict=True))
        assert done[key].exit_status == 0, done[key].output[-3000:]
        return done[key]

    return get
