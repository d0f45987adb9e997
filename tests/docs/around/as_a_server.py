# The same in a process that is a server, of a job that begins with the checkpoint.
import os

import flota

os.environ["FLOTA_SECRET"] = "0123456789abcdef0123456789abcdef"
flota.init(flota.UserDefinedRoleMaker(0, flota.Role.SERVER, worker_num=1, server_endpoints=["127.0.0.1:6170"]))
