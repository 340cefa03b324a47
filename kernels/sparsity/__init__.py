"""Kernels around a sparsity pattern: conversions, block means, top-k selection, row order."""
