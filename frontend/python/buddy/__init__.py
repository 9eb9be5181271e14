"""Buddy: compiles PyTorch models to native code through MLIR."""

__version__ = "0.1.0"
