from click_data import read


def samples(files, config):
    """The classic kind of reader: a function that makes an iterator of samples."""

    def reader():
        for path in files:
            with open(path) as file:
                for line in file:
                    label, counts, ids = read(line)
                    yield [[each] for each in ids] + [counts, [float(label)]]

    return reader
