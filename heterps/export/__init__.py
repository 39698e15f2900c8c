"""A trained model for others to score with: rows as Arrow or Parquet files, the dense part as ONNX, one manifest."""

from heterps.export.exporting import export_model
from heterps.export.onnx_graph import dense_to_onnx
from heterps.export.onnx_ops import register_onnx

__all__ = ["dense_to_onnx", "export_model", "register_onnx"]
