# The page's job has saved twice before.
flota.save_persistables("run", keep=3)
train(100)
flota.save_persistables("run", keep=3)
train(100)
