"""The Kubernetes API over HTTP: storage, rules, documents and routes; it starts no controller."""
