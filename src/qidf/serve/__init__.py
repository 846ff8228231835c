"""What answers over HTTP: the proxy in front of a search server."""
