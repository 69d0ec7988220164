"""The running operator: Kopf application, one driver per run, inbox, health."""
