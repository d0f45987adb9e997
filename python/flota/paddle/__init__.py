"""The documents' programs: Paddle's API over flota and torch."""
