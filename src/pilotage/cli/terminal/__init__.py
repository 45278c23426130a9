"""What commands share: options, tables, questions."""
