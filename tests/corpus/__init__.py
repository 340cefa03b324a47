"""Whole kernels that this project did not generate, as test data for devices that run code objects."""
