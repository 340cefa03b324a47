"""Whole kernels of other compilers: test data for devices that run code objects."""
