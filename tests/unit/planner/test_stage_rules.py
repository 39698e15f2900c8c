"""Stages as they are, within the program over types: each rule on instances that are drawn for it.

Mistakes were planted in the rules, one at a time: a bound that counts too much is false, one that counts too little is
weak. All but those that are named last are found, the seeds of ``CLOSE`` having been chosen so that each is. A bound is
asked for with a price that is more than the best plan's: with that itself, a false bound per row would not be seen.

================= ==================================================================== ======================
planted in        mistakes                                                             found by
================= ==================================================================== ======================
one_stage         no stage without its Layer; work, units, shard hosts of a stage or   ``CLOSE``
                  of all others missing, counted twice, or on every type; what leaves
                  or comes missing, always there, swapped, of both directions; memory
                  of what crosses; batches one more, one fewer, without what is there
                  once; room rounded down
one_stage         ``_tie`` without either line, or with the highest rate; half of      product of two, edges
                  ``spare``; parts of branches all or nothing; a Layer's work in a
                  stage though it is elsewhere; no unit for the rest; a message
                  between stages of a type; ``_all`` in parts, or never
anchor_stage      h or h - 2 for h - 1; h from 3, or to one less; what is in flight    ``CLOSE``
                  free, always, a tenth less, the fewest, more than the most
anchor_stage      a choice of h without an anchor; h beyond those told apart; all      edges
                  batches in one worker: never, for the fastest, tight
lane_stage        depth from 2, to one less, without a limit; lanes free, more, fewer, ``CLOSE``
                  too few; gradients of what is inside, twice, never; no downset
lane_stage        a choice of d without the first Layer; depth from 1; depths beyond   edges
                  those told apart missing, or with fewer batches
lane_stage        stages between two: never, always, without the first or the later    ``CLOSE``, edges
                  one; a message once, twice always; who sends it on, who receives it
type_program      crossing, gradients, own ways, shard hosts, batches in flight, sums  ``CLOSE``, edges
                  of memory: each missing, twice, swapped, rounded up
type_program      a message as the sum of both sides, or of one                        ``CLOSE``
type_program      counts of branches: in ways, in room, of the first Layer, of those   edges
                  that must not be split; a cutoff that is too tight
type_program      steps of prices per row: wrong sign, wrong end, what was found for   ``CLOSE``,
                  what is proved; Layers that pools share whole, their room by parts   test_type_program
bands             a gap between parts, the first one too high, the best band for the  test_bands
                  worst, room for the slowest rate; what is not decided as proved
search            what a solver leaves open as proved: its bound, rates of which it    test_search
                  says nothing
================= ==================================================================== ======================

Not found, as they change nothing but how long that takes: twice ``spare`` or more; a part of a Layer where its stage is
not; a unit for a stage that has work; more batches than fit as a choice; no row for the dearest; a unit for the
rest by parts of branches.
"""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.one_stage import OneStage
from heterps.planner.solve.type_program import TypeProgram
from tests.unit.planner.solve.test_bands import is_beaten
from tests.unit.planner.stage_instances import ANCHORED, BANDS, BARE, GOALS, LANES, bounded, looked_at, placed

FEW, MANY = (0, 2, 3, 5, 8, 12, 13, 22, 25, 61), range(1_500)
CLOSE = [
    (2, 2, 0, LANES),
    (2, 2, 2, ANCHORED),
    (3, 2, 1, LANES),
    (7, 2, 0, LANES),
    (8, 3, 1, LANES),
    (11, 3, 1, LANES),
    (11, 3, 2, LANES),
    (12, 3, 1, LANES),
    (18, 2, 1, LANES),
    (18, 2, 2, LANES),
    (21, 3, 0, LANES),
    (25, 2, 0, LANES),
    (26, 3, 2, LANES),
    (42, 3, 1, LANES),
    (45, 2, 2, LANES),
    (72, 3, 1, LANES),
    (611, 3, 1, LANES),
    (762, 3, 1, ANCHORED),
    (2108, 3, 0, LANES),
]


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["few", "many"])
def test_no_plan_is_better_than_stages_as_they_are_say(seeds):
    looked = 0
    for seed, band, goal in itertools.product(seeds, range(len(BANDS)), range(len(GOALS))):
        problem, best = looked_at(seed, band, goal)
        for stages in (BARE, ANCHORED, LANES) if best else ():
            bound = bounded(problem, GOALS[goal], best, stages)
            assert not is_beaten(GOALS[goal], bound, best), (
                f"seed {seed}, {band}, {goal}, {stages}: {bound}, best {best}"
            )
            looked += 1
    assert looked > 10


@pytest.mark.parametrize(("seed", "band", "goal", "stages"), CLOSE)
def test_stages_as_they_are_say_what_the_best_plan_costs(seed, band, goal, stages):
    """A rule that is left out says less."""
    problem, best = looked_at(seed, band, goal)
    assert bounded(problem, GOALS[goal], best, stages) == pytest.approx(best, rel=1e-4)


def test_all_that_is_a_part_of_something_has_a_limit():
    """Without, prices of rows prove nothing; a solver was seen to prove what is not so."""
    problem = replace(placed(0), way_from=1.0, way_to=2.0)
    TypeProgram(problem, **LANES)._build(program := IntegerProgram(), 1.0, 1.0, 1.6)
    assert all(whole or math.isfinite(upper) for whole, upper in zip(program.whole, program.upper, strict=True))


@pytest.mark.parametrize(("part", "rate"), [(0.0, 0.7), (1.0, 0.5), (1.0, 0.7), (0.3, 0.5), (0.3, 1.0)])
def test_a_product_of_two_is_exact_where_one_of_them_is_at_an_end(part, rate):
    """Rows a second from a half of the highest to all of them; elsewhere it is no more than the product."""
    program = IntegerProgram()
    columns = [program.part() for _ in range(2)]
    product = program.continuous(1.0)
    stage = SimpleNamespace(_program=program, _at=SimpleNamespace(rate=columns[1], low=2.0, high=4.0))
    OneStage._tie(stage, product, columns[0])
    for column, value in zip(columns, (part, rate), strict=True):
        program.row([(column, 1.0)], value, value)
    assert program.solve(1.0).value == pytest.approx(part * rate)
