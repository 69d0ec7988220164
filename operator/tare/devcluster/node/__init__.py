"""The one node: scheduler, kubelet, local processes and the proxies behind Services."""
