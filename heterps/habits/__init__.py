"""What goes on around training: whoever listens to it, stops it, keeps its best model, writes its story down."""

from heterps.habits.calibration import Calibration, calibrate
from heterps.habits.callbacks import Callback
from heterps.habits.dump import Dump
from heterps.habits.early_stopping import EarlyStopping
from heterps.habits.keep_best import KeepBest
from heterps.habits.loggers import CSVLog, MLflowLog, TensorBoardLog
from heterps.habits.reduce_on_plateau import ReduceOnPlateau

__all__ = [
    "CSVLog",
    "Calibration",
    "Callback",
    "Dump",
    "EarlyStopping",
    "KeepBest",
    "MLflowLog",
    "ReduceOnPlateau",
    "TensorBoardLog",
    "calibrate",
]
