"""Files as streams of lines: local and remote, plain and compressed, whole and in pieces."""

import bz2
import contextlib
import functools
import gzip
import io
import os
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flota.data import shards
from flota.data.formats import lines as lines_of
from flota.data.formats.files import look_at
from flota.data.formats.lines import Lines, TooLong, whole_lines
from flota.errors import DataError, MissingFile

# --- whole lines ---


def read_lines(text, begin, end, chunk, longest):
    """The lines that a reader of a piece of the text gets; None for one that is too long."""
    stream = io.BytesIO(text)
    stream.seek(max(begin - 1, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_of, "CHUNK", chunk)
        patch.setattr(lines_of, "LONGEST", longest)
        parts = list(whole_lines(stream, None if end is None else end - begin, begin > 0))
    found = []
    for part in parts:
        if isinstance(part, TooLong):
            found.append(None)
        else:
            assert isinstance(part, Lines)
            found += part.text[: part.end].splitlines(keepends=True)
    return found


def lines_that_begin_in(text, begin, end):
    """The same, said simply."""
    places = [0] + [match.end() for match in re.finditer(b"\n", text)]
    return [
        text[place:].split(b"\n")[0] + (b"\n" if b"\n" in text[place:] else b"")
        for place in places
        if place < len(text) and begin <= place and (end is None or place < end)
    ]


TEXTS = st.lists(st.sampled_from([b"a", b"bb", b"\n", b"ccc", b"\n\n"]), max_size=30).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.data(), st.integers(1, 12))
def test_a_piece_has_the_lines_that_begin_in_it(text, data, chunk):
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.none() | st.integers(begin + 1, len(text) + 3))
    assert read_lines(text, begin, end, chunk, 1 << 20) == lines_that_begin_in(text, begin, end)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 12), st.integers(1, 10))
def test_pieces_together_have_every_line_once(text, chunk, most):
    ends = [*range(0, len(text), most), len(text)]
    found = [read_lines(text, begin, end, chunk, 1 << 20) for begin, end in pairwise(ends)]
    assert b"".join(line for piece in found for line in piece) == text


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 8), st.booleans())
def test_a_line_that_is_too_long_is_left_out_and_told(lengths, chunk, ended):
    """Lines a little longer than the limit may pass, those beyond it by a chunk do not."""
    longest = 10
    text = b"\n".join(b"x" * length for length in lengths) + (b"\n" if ended else b"")
    expected = lines_that_begin_in(text, 0, None)
    found = read_lines(text, 0, None, chunk, longest)
    assert len(found) == len(expected)
    for got, line in zip(found, expected, strict=True):
        assert got == line or (got is None and len(line) > longest)
        assert got is None or len(line) <= longest + chunk + 1


def test_a_piece_inside_a_long_line_is_not_read_to_the_end_of_the_line():
    class Endless(io.RawIOBase):
        asked = 0

        def read(self, size=-1):
            self.asked += size
            assert self.asked < 1 << 26
            return b"x" * size

    assert list(whole_lines(Endless(), limit=5 << 20, in_a_line=True)) == []


# --- compressed files ---


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {"gzip": gzip.compress, "zstd": zstd, "bz2": bz2.compress, "plain": bytes}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_files_are_unpacked_whatever_their_names(write, dataset, lines, numbers, pack):
    path = write("part-0", pack(lines(*range(5000)).encode()))
    assert numbers(dataset([path], 512)) == [*range(5000)]


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_files_packed_one_after_another_are_one(write, dataset, lines, numbers, pack):
    parts = [lines(1, 2).encode(), b"", lines(3).encode()[:-3], lines(3).encode()[-3:] + lines(4).encode()]
    path = write("part.gz", b"".join(pack(part) for part in parts))
    assert numbers(dataset([path])) == [1, 2, 3, 4]


# --- remote files ---


def test_files_behind_urls_are_read(write, dataset, lines, numbers):
    local = write("part-0", lines(1, 2))
    with fsspec.open("memory://flota-test/part-1", "wb") as stream:
        stream.write(gzip.compress(lines(3).encode()))
    with fsspec.open("memory://flota-test/part-2", "wb") as stream:
        stream.write(lines(4, 5).encode())
    files = [f"file://{local}", "memory://flota-test/part-1", "memory://flota-test/part-2"]
    assert numbers(dataset(files)) == [1, 2, 3, 4, 5]


def test_names_without_a_scheme_are_of_fs_name(dataset, lines, numbers):
    with fsspec.open("memory://folder/part", "wb") as stream:
        stream.write(lines(7).encode())
    for fs_name, path in [("memory://", "/folder/part"), ("memory://folder", "part"), ("memory://folder/", "/part")]:
        assert numbers(dataset([path], fs_name=fs_name)) == [7]


def test_remote_files_are_cut_too(dataset, lines, numbers, small_pieces):
    with fsspec.open("memory://cut/part", "wb") as stream:
        stream.write(lines(*range(50)).encode())
    assert sorted(numbers(dataset(["memory://cut/part"], thread_num=3))) == [*range(50)]


@pytest.mark.parametrize(
    ("url", "error", "says"),
    [
        ("memory://nowhere/part", MissingFile, "memory://nowhere/part: there is no such file"),
        ("file:///nowhere/part", MissingFile, "file:///nowhere/part: there is no such file"),
        ("nosuch://host/part", DataError, "nosuch://host/part cannot be read: Protocol not known"),
    ],
)
def test_a_url_that_leads_nowhere_is_named(dataset, url, error, says):
    with pytest.raises(error, match=says):
        iter(dataset([url]))


def test_a_folder_is_no_file(dataset, tmp_path):
    with pytest.raises(DataError, match="is a folder: name the files in it"):
        iter(dataset([str(tmp_path)]))


class WholeFiles(SimpleHTTPRequestHandler):
    """Answers as Python's own web server does: always with whole files."""

    def log_message(self, *_):
        pass


class Ranges(WholeFiles):
    """Gives parts of files to those who ask for them."""

    parts = 0

    def do_GET(self):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = self.translate_path(self.path)
        if asked is None or not os.path.isfile(path):
            return super().do_GET()
        begin, end = int(asked[1]), int(asked[2]) + 1
        with open(path, "rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
        Ranges.parts += 1
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{begin + len(data) - 1}/{os.path.getsize(path)}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextlib.contextmanager
def web_server(folder, handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("handler", [WholeFiles, Ranges])
def test_files_of_a_web_server_are_read(tmp_path, write, dataset, lines, numbers, handler, monkeypatch):
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(shards, "_LEAST_BYTES", 1 << 18)
    # More than fsspec asks for at a time.
    large = "".join(f"1 {number:>99} 1 0\n" for number in range(60_000))
    write("large", large)
    write("packed.gz", gzip.compress(large.encode()))
    write("small", lines(60_000, 60_001))
    with web_server(tmp_path, handler) as url:
        read = numbers(dataset([f"{url}/large", f"{url}/small"], 1000, 2))
        assert sorted(read) == [*range(60_002)]
        assert look_at(f"{url}/large").cuttable == (handler is Ranges)
        assert numbers(dataset([f"{url}/packed.gz"], 1000)) == [*range(60_000)]
        with pytest.raises(MissingFile, match="/nothing: there is no such file"):
            iter(dataset([f"{url}/nothing"]))


def test_a_web_server_that_is_not_there_is_named(dataset):
    pytest.importorskip("aiohttp")
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:9/part cannot be read"):
        iter(dataset(["http://127.0.0.1:9/part"]))


@pytest.mark.skipif(find_spec("aiohttp") is not None, reason="aiohttp is there")
def test_what_web_files_need_is_said(dataset):
    with pytest.raises(DataError, match="aiohttp"):
        iter(dataset(["http://127.0.0.1:9/part"]))
