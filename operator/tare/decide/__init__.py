"""Pure, level-based reconcile: spec, status and observations in, actions and next status out."""
