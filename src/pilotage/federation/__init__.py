"""Read and check what people write: federations, tasks and saved worlds. Each fault has its line."""
