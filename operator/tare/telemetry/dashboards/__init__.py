"""Grafana dashboards as code: `panels` knows Grafana's JSON, the other modules the questions."""
