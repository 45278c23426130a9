"""Reading and checking what people write: federations, tasks and saved worlds, each fault with its line."""
