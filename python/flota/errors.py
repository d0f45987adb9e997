"""What can go wrong, as exceptions.

    FlotaError
    ├── InvalidArgument (also ValueError)   what the caller passed makes no sense
    │   ├── UnknownTable                    no table of that name
    │   ├── TableMismatch                   the table exists with other settings
    │   ├── NonFiniteValues                 NaN or infinity where the table refuses them
    │   └── TooLarge                        beyond a limit
    ├── ServerError                         something between here and a server
    │   ├── ServerUnavailable (also ConnectionError)   not there, or gone
    │   ├── ServerBusy                      it has no room for another connection
    │   ├── DiskFull                        its disk is full: it cannot write down what it is asked to do
    │   ├── StateLost                       it lacks what it had answered for: its machine died
    │   ├── DeadlineExceeded (also TimeoutError)       it did not answer in time
    │   ├── AuthenticationFailed (also PermissionError)  one side does not know the job's secret
    │   ├── VersionMismatch                 it speaks another protocol version
    │   ├── WrongServer                     it is not the server expected at that address
    │   └── ProtocolError                   it sent bytes that make no sense
    ├── StaleEpoch                          a newer incarnation of this worker is at work
    ├── DataError (also ValueError)         training data that is not what it should be
    │   └── MissingFile (also FileNotFoundError)       a data file that is not there
    ├── CheckpointError                     a checkpoint that is missing, damaged, or not the model's
    ├── ClientClosed                        close() was called
    └── SystemFailure (also OSError)        the operating system refused: a port, memory, a file

Messages name the server, what was asked of it, and what to do.
"""


class FlotaError(Exception):
    """The base of all of flota's exceptions."""


class InvalidArgument(FlotaError, ValueError):
    """What the caller passed makes no sense."""


class UnknownTable(InvalidArgument):
    """There is no table of that name on the servers."""


class TableMismatch(InvalidArgument):
    """The table exists with other settings than asked for."""


class NonFiniteValues(InvalidArgument):
    """NaN or infinity for a table that refuses them; nothing was applied."""


class TooLarge(InvalidArgument):
    """A size beyond a limit."""


class ServerError(FlotaError):
    """Something went wrong between this process and a server."""


class ServerUnavailable(ServerError, ConnectionError):
    """A server is not there, or went away and did not come back in time."""


class ServerBusy(ServerError):
    """A server has no room for another connection."""


class DiskFull(ServerError):
    """A server's disk is full, and stayed so: it does nothing that it cannot write down."""


class StateLost(ServerError):
    """A server lacks changes that it had answered for, since its machine died before they were on the disk."""


class DeadlineExceeded(ServerError, TimeoutError):
    """Somebody did not answer in time; the message says who."""


class AuthenticationFailed(ServerError, PermissionError):
    """One side does not know the job's secret, or a certificate does not check."""


class VersionMismatch(ServerError):
    """The other side speaks another version of the protocol."""


class WrongServer(ServerError):
    """The server at that address is not the one that this process expects there."""


class ProtocolError(ServerError):
    """The other side sent bytes that make no sense."""


class StaleEpoch(FlotaError):
    """A newer incarnation of this worker is at work; this one must stop."""


class DataError(FlotaError, ValueError):
    """Training data that is not what it should be; the message names file, line and command."""


class MissingFile(DataError, FileNotFoundError):
    """A data file that is not there."""


class CheckpointError(FlotaError):
    """A checkpoint that is missing, damaged, or not the model's; the message names the file or table."""


class ClientClosed(FlotaError):
    """The client was closed."""


class SystemFailure(FlotaError, OSError):
    """The operating system refused: a port in use, no memory, an unreadable file."""


# What ends a worker that did nothing wrong itself: another attempt may fare better. (A tuple, as `except` takes it.)
MAY_PASS = (ServerUnavailable, ServerBusy, DiskFull, DeadlineExceeded)
