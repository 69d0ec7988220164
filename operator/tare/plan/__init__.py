"""Pure planning: sweep to cells, order of trials, phases, what each worker is told to do."""
