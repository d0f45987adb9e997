"""The command line of ``flota checkpoint``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from flota.errors import FlotaError

_FROM_ONLY = ("ids", "space", "buckets", "columns")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flota checkpoint",
        description="Look into checkpoints, check them, convert them.",
        epilog="DIR is a folder, a URL, or a folder of checkpoints that save_persistables(…, keep=N) fills: of those, "
        "the newest is taken. docs/checkpoints.md shows each command.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False)

    inspect = command("inspect", "show what is in a checkpoint")
    inspect.add_argument("dir", metavar="DIR")
    inspect.add_argument("--json", action="store_true", help="everything, for programs")

    verify = command("verify", "read every file and check it; status 0: good, 1: damaged")
    verify.add_argument("dir", metavar="DIR")

    diff = command("diff", "compare two checkpoints; status 0: equal, 1: not")
    diff.add_argument("a", metavar="A")
    diff.add_argument("b", metavar="B")
    diff.add_argument("--json", action="store_true", help="everything, for programs")
    diff.add_argument("--tolerance", type=float, default=0.0, metavar="T", help="how far apart equal numbers may be")

    convert = command("convert", "write a checkpoint as torch, safetensors or Parquet files, or make one of them")
    convert.usage = (
        "flota checkpoint convert [--state] [--table NAME]… DIR OUT\n"
        "       flota checkpoint convert --from SOURCE [--ids | --space NAME [--buckets N]]\n"
        "                                [--columns KEY,WEIGHTS] [--table NAME[=TENSOR]]… OUT_DIR"
    )
    convert.add_argument("paths", nargs="+", metavar="PATH", help=argparse.SUPPRESS)
    convert.add_argument("--state", action="store_true", help="the optimizer's state and counters, too")
    convert.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME",
        help="this table only; with --from, the table that the rows are for, and NAME=TENSOR where a tensor is not "
        "called NAME.weight",
    )
    convert.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="a state_dict (.pt, .safetensors), rows (.parquet), or text: word v1 v2 …, also compressed",
    )
    convert.add_argument("--ids", action="store_true", help="words are whole numbers: the keys themselves")
    convert.add_argument(
        "--space",
        metavar="NAME",
        help="hash words as flota.data.Sparse does with this space (default: the table's name)",
    )
    convert.add_argument("--buckets", type=int, metavar="N", help="the same as of flota.data.Sparse")
    convert.add_argument(
        "--columns", metavar="KEY,WEIGHTS", help="of a Parquet file (default: key,weights); a key of text is hashed"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(list(argv))
    try:
        return _run(parser, options)
    except FlotaError as error:
        print(f"flota checkpoint {options.command}: {error}", file=sys.stderr)
        return 1


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    # Imported on use: no command pays for another.
    if options.command == "inspect":
        from flota.checkpoint.commands.show import inspect

        return inspect(options.dir, options.json)
    if options.command == "verify":
        from flota.checkpoint.commands.check import verify

        return verify(options.dir)
    if options.command == "diff":
        from flota.checkpoint.commands.compare import diff

        if not options.tolerance >= 0:
            parser.error(f"--tolerance must be 0 or more, not {options.tolerance}")
        return diff(options.a, options.b, options.tolerance, options.json)
    return _convert(parser, options)


def _convert(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.source is None:
        if given := [name for name in _FROM_ONLY if getattr(options, name)]:
            parser.error(f"convert: --{given[0]} goes with --from")
        if len(options.paths) != 2:
            parser.error("convert: give the checkpoint and what to write: DIR OUT")
        from flota.checkpoint.commands.export import export

        dirname, out = options.paths
        return export(dirname, out, options.state, options.table)
    if options.state:
        parser.error("convert: --state does not go with --from: there is none in what other programs write")
    if len(options.paths) != 1:
        parser.error("convert: with --from, give one OUT_DIR")
    if options.ids and (options.space or options.buckets):
        parser.error("convert: --ids takes words as they are: --space and --buckets are for hashes")
    if options.buckets is not None and options.buckets < 1:
        parser.error(f"convert: --buckets must be 1 or more, not {options.buckets}")
    columns = (options.columns or "key,weights").split(",")
    if len(columns) != 2:
        parser.error(f"convert: --columns names two, as in key,weights, not {options.columns}")
    from flota.checkpoint.commands.vectors import Words, convert_from

    words = None
    if options.ids or options.space or options.buckets:
        space = options.space or (options.table[0] if options.table else "")
        words = Words(space, options.buckets or 0, options.ids)
    return convert_from(options.source, options.paths[0], options.table, words, (columns[0], columns[1]))
