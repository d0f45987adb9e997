"""Two days of clicks in Criteo's text format."""

from flota.data.synthetic import Clicks

train, test = Clicks(3000).split()
train.write("day_0", files=3)
test.write("day_1")
