"""The emulated device: executes HSACO code objects on the CPU."""
