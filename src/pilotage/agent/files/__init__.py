"""Files of a payload: inputs, outputs, and the storages that hold them."""
