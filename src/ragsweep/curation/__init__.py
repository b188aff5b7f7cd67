"""Make, judge and repair golden sets."""
