"""Hunt for bugs in the protocol: one seed is one world with its faults; the code that runs in it is the production
code.
"""

from heterps.simulator.hunt import Failure, Hunt, hunt, shrink
from heterps.simulator.scenario import Fault, Scenario, draw
from heterps.simulator.world import Outcome, simulate

__all__ = ["Failure", "Fault", "Hunt", "Outcome", "Scenario", "draw", "hunt", "shrink", "simulate"]
