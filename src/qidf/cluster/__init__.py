"""A running search server, switched on and watched: searches rewritten in front of it, its settings, advice."""
