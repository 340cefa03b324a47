"""KernelDef to HSACO code object."""
