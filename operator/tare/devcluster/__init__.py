"""The embedded cluster: API server, controllers and a kubelet of local processes."""
