"""How a file is copied, checked and resumed."""
