"""BenchmarkRun: spec, status, conditions, reasons, names; one truth for code, CRD and docs."""
