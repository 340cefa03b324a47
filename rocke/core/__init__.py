"""The IR: types, values, the builder and the kernel it makes; see `rocke.core.ir`."""
