"""Decisions: which Layers form a Stage, on which pool, with how many workers, and the proof."""

from heterps.planner.forecast import Certificate, Cost, Forecast, StageForecast, TableForecast
from heterps.planner.plan import Plan, Share, Stage

__all__ = ["Certificate", "Cost", "Forecast", "Plan", "Share", "Stage", "StageForecast", "TableForecast"]
