"""Checks of the emulated device: what a kernel does wrong without an address being bad."""
