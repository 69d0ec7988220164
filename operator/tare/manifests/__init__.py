"""Pure builders of the Kubernetes objects that a run owns."""
