"""What the processes of a job tell each other over PMIx, the library by which ``mpirun`` itself speaks to its ranks.

It is there wherever Open MPI was built with it, which is every distribution's; it needs no MPI_Init, and knows who has
not told anything yet. A process stays connected until its end: Open MPI of release 4 lets none connect again, and the
script may use MPI as well, before or after this.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from collections.abc import Iterable

from flota.errors import SystemFailure

# As in pmix_common.h, which has kept them since version 2.
_SUCCESS, _BOOL, _STRING, _GLOBAL = 0, 1, 3, 3
_KEY, _NSPACE = 512, 256
_COLLECT, _HOSTNAME = b"pmix.collect", "pmix.hname"

_LIBRARIES = ("libpmix.so.2", "libpmix.so")
_NAMING = 1.0  # seconds that finding out who has told nothing may take


class _Proc(ctypes.Structure):
    _fields_ = (("nspace", ctypes.c_char * _NSPACE), ("rank", ctypes.c_uint32))


class _Data(ctypes.Union):
    _fields_ = (("text", ctypes.c_char_p), ("flag", ctypes.c_bool), ("room", ctypes.c_char * 64))


class _Value(ctypes.Structure):
    """pmix_value_t, whose union is smaller: more room does no harm where there is one of them."""

    _fields_ = (("type", ctypes.c_uint16), ("data", _Data))


class _Info(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char * _KEY), ("flags", ctypes.c_uint32), ("value", _Value))


_Heard = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(_Value), ctypes.c_void_p)
_Done = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)


def load() -> ctypes.CDLL | None:
    """The library, or None where there is none."""
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


class Pmix:
    """This process's connection to its daemon. Requires: ``mpirun`` started it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._pmix = library
        self._pmix.PMIx_Error_string.restype = ctypes.c_char_p
        self._me = _Proc()
        self._lent: list[object] = []  # what the library reads and calls as long as it runs
        self._check("PMIx_Init", self._pmix.PMIx_Init(ctypes.byref(self._me), None, ctypes.c_size_t(0)))
        atexit.register(self._close, os.getpid())

    def _close(self, owner: int) -> None:
        if os.getpid() == owner:
            self._pmix.PMIx_Finalize(None, ctypes.c_size_t(0))

    def tell(self, name: str, text: str) -> None:
        value = _Value(type=_STRING, data=_Data(text=text.encode()))
        self._check("PMIx_Put", self._pmix.PMIx_Put(ctypes.c_uint8(_GLOBAL), _key(name), ctypes.byref(value)))
        self._check("PMIx_Commit", self._pmix.PMIx_Commit())

    def meet(self, seconds: float) -> bool:
        """Waits for all processes of the job to come here; whether they did. Then all know what each has told."""
        met = threading.Event()
        statuses: list[int] = []

        def done(status: int, _: object) -> None:  # called by a thread of the library's
            statuses.append(status)
            met.set()

        # Everybody gets what everybody has told: without, only what was told before the first question is ever found.
        collect = _Info(key=_COLLECT, value=_Value(type=_BOOL, data=_Data(flag=True)))
        called = _Done(done)
        self._lent += [collect, called]
        status = self._pmix.PMIx_Fence_nb(
            None, ctypes.c_size_t(0), ctypes.byref(collect), ctypes.c_size_t(1), called, None
        )
        self._check("PMIx_Fence_nb", status)
        if not met.wait(seconds):
            return False
        self._check("PMIx_Fence_nb", statuses[0])
        return True

    def told(self, name: str, ranks: Iterable[int]) -> dict[int, str]:
        """What these ranks have told by now; of those that have not, nothing."""
        found: dict[int, str] = {}
        waited_for = set(ranks)
        changed = threading.Condition()
        key = _key(name)

        def ask(rank: int) -> None:
            def heard(status: int, value: ctypes._Pointer[_Value], _: object) -> None:
                with changed:
                    if status == _SUCCESS:
                        found[rank] = value[0].data.text.decode()
                    waited_for.discard(rank)
                    changed.notify()

            whose, called = self._rank(rank), _Heard(heard)
            self._lent.extend((whose, called))
            status = self._pmix.PMIx_Get_nb(ctypes.byref(whose), key, None, ctypes.c_size_t(0), called, None)
            if status != _SUCCESS:
                with changed:
                    waited_for.discard(rank)

        self._lent.append(key)
        for rank in tuple(waited_for):
            ask(rank)
        with changed:
            changed.wait_for(lambda: not waited_for, _NAMING)
            return dict(found)

    def host(self, rank: int) -> str:
        """Where it runs; empty where mpirun does not say."""
        value = ctypes.POINTER(_Value)()
        status = self._pmix.PMIx_Get(
            ctypes.byref(self._rank(rank)), _key(_HOSTNAME), None, ctypes.c_size_t(0), ctypes.byref(value)
        )
        return value[0].data.text.decode() if status == _SUCCESS and value[0].type == _STRING else ""

    def _rank(self, rank: int) -> _Proc:
        return _Proc(nspace=self._me.nspace, rank=rank)

    def _check(self, call: str, status: int) -> None:
        if status != _SUCCESS:
            why = self._pmix.PMIx_Error_string(status).decode()
            raise SystemFailure(f"{call}: {why}: this process cannot speak to the mpirun that started it")


def _key(name: str) -> ctypes.Array[ctypes.c_char]:
    """The library reads as many bytes as a key may have."""
    return ctypes.create_string_buffer(name.encode(), _KEY)
