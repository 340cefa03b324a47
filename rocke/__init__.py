"""rocke: a Python DSL compiler for AMD Instinct GPU kernels."""
