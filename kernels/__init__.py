"""Kernel families; installed and imported as ``rocke.kernels``."""
