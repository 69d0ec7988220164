"""Pure measuring: metric definitions, mergeable histograms, counts, intervals, goals."""
