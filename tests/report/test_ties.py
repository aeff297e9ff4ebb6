"""Configurations are told apart by their repeats, and in groups otherwise."""

import numpy as np
import pytest

from howmanygpus.report.ties import are_told_apart, group_ties, measure_scatter


def group(*samples):
    return group_ties(samples, measure_scatter(samples))


def test_a_clear_winner_has_a_group_of_its_own():
    assert group([100, 101, 99], [150, 151, 149], [100.5, 98, 102]) == [2, 1, 2]


def test_overlapping_repeats_are_a_tie():
    assert group([370, 360, 380], [378, 369, 389], [195, 191, 199], [100, 98, 102]) == [1, 1, 2, 3]


def test_a_chain_does_not_join_what_can_be_told_apart():
    first, second, third = [110, 112, 114], [107, 109, 111], [104, 106, 108]
    scatter = measure_scatter([first, second, third])
    assert not are_told_apart(first, second, scatter) and not are_told_apart(second, third, scatter)
    assert are_told_apart(first, third, scatter)
    assert group(first, second, third) == [1, 1, 2], "the best leads, and the second cannot be told from it"
    assert group(third, second, first) == [2, 1, 1], "whatever the order of the table"


def test_two_repeats_must_also_differ_by_more_than_the_usual_scatter():
    """One pair of equals in three has repeats that do not overlap."""
    noisy = [100, 106]
    assert group([200, 202], [205, 207], noisy) == [1, 1, 2]
    assert group([200, 202], [213, 215], noisy) == [2, 1, 3]
    assert group([200, 201, 202], [205, 206, 207], noisy) == [2, 1, 3], "three repeats do not need it"


def test_one_repeat_is_compared_by_the_scatter_of_the_others():
    assert group([100], [103], [50, 52]) == [1, 1, 2]
    assert group([100], [105], [50, 52]) == [2, 1, 3]


def test_without_repeats_nothing_is_told_apart():
    assert np.isnan(measure_scatter([[100], [200]]))
    assert not are_told_apart([100], [200], np.nan)
    assert group([100], [200]) == [1, 1]


def test_scatter_is_a_conformal_quantile():
    assert measure_scatter([[100, 102], [10], [50, 55]]) == pytest.approx(1.1), "few configurations: the largest"
    assert measure_scatter([[100, 100 + number] for number in range(1, 40)]) == pytest.approx(1.38)
    generator = np.random.default_rng(1)
    pairs = generator.lognormal(0, 0.02, (2000, 30, 2))
    seen = [measure_scatter(study[:-1]) for study in pairs]
    assert np.mean(np.exp(np.ptp(np.log(pairs[:, -1]), axis=1)) <= seen) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("num", "most"), [(2, 0.05), (3, 0.13), (5, 0.08)])
def test_equal_configurations_are_rarely_told_apart(num, most):
    """The level of three repeats on each side is 90 %, and of five about 95 %."""
    studies = np.random.default_rng(num).lognormal(5, 0.02, (2000, 24, num))
    wrong = [are_told_apart(study[0], study[1], measure_scatter(study)) for study in studies]
    assert np.mean(wrong) <= most


@pytest.mark.parametrize("seed", range(10))
def test_groups_have_a_leader_from_which_all_members_cannot_be_told(seed):
    generator = np.random.default_rng(seed)
    centres = generator.uniform(100, 115, 9)
    samples = [centre * generator.lognormal(0, 0.02, generator.integers(1, 7)) for centre in centres]
    scatter = measure_scatter(samples)
    groups = np.array(group_ties(samples, scatter))
    assert set(groups) == set(range(1, groups.max() + 1))
    medians = np.array([np.median(sample) for sample in samples])
    leaders = []
    for number in range(1, groups.max() + 1):
        (members,) = np.nonzero(groups == number)
        leader = members[medians[members].argmax()]
        leaders.append(leader)
        assert not any(are_told_apart(samples[leader], samples[each], scatter) for each in members)
        later = np.nonzero(groups > number)[0]
        assert all(are_told_apart(samples[leader], samples[each], scatter) for each in later)
    assert list(medians[leaders]) == sorted(medians[leaders], reverse=True)
    order = generator.permutation(len(samples))
    assert list(groups[order]) == group_ties([samples[each] for each in order], scatter)


def test_values_of_zero_are_compared():
    assert group([0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.0, 0.0, 0.0]) == [2, 1, 2]
