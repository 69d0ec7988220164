"""Defaults and checks of the built-in kinds, as far as the real server's code has them."""
