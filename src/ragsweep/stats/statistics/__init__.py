"""What the numbers of a sample say of the numbers to come."""
