"""Statistics of samples: intervals, summaries, calibration of judges."""
