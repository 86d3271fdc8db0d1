"""What is known of the rows at the end of one model is not computed again for the next."""

import numpy as np

import anymix as ax
from anymix.solvers.sqp import PLACES, WIDEST, Trail, iterates


def problem() -> ax.LinearDomains:
    rng = np.random.default_rng(0)
    return ax.LinearDomains(rng.normal(size=(40, 3)), rng.integers(2, size=40), np.arange(40) % 2)


def test_places_are_found_again_and_the_oldest_makes_room() -> None:
    rows, even = problem(), np.array([0.5, 0.5])
    trail, places = Trail(rows.n_parameters), np.eye(4)
    first = trail.at(rows, places[0], even)
    np.testing.assert_array_equal(first.losses, rows.losses(places[0]))
    assert trail.at(rows, places[0].copy(), even) is first
    for w in places[1 : 1 + PLACES]:
        np.testing.assert_array_equal(trail.at(rows, w, even).losses, rows.losses(w))
    assert trail.at(rows, places[0], even) is not first


def test_the_end_of_the_iterates_is_known() -> None:
    rows, even = problem(), np.array([0.5, 0.5])
    objective = ax.Objective(gamma=0.1).on(rows)
    for n_parameters in (rows.n_parameters, WIDEST + 1, None):
        trail = Trail(n_parameters)
        steps = trail.followed(iterates(rows, objective, rows.at(np.zeros(4)), even))
        ends = [next(steps).there for _ in range(3)]
        is_kept = n_parameters == rows.n_parameters
        assert (trail.at(rows, ends[-1].w, even) is ends[-1]) == is_kept
        assert trail.at(rows, ends[0].w, even) is not ends[0]
