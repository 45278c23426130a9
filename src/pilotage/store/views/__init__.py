"""What people see: lists and single records."""
