"""How a running job does, for people: ``looking`` asks its servers; what shows it stands above."""
