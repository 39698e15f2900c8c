"""What Layers, tables and plans cost."""
