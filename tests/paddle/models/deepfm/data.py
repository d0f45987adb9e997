from click_data import write  # noqa: F401
