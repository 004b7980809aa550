"""Read files up to a size limit, as bytes, UTF-8 text or untrusted JSON; write them completely or not at all."""

import contextlib
import errno
import io
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from remat_algos.errors import ArgumentError, GraphError
from remat_algos.text.amounts import decimal, parse_bytes
from remat_algos.wording import first_line, format_bytes, shortened_path

READ_LIMIT = 2**29
"""Maximum number of bytes of a file after decompression; the environment variable `LIMIT_VARIABLE` overrides it."""
LIMIT_VARIABLE = "REMAT_READ_LIMIT"

MAX_EXPANSION = 200
"""Maximum ratio of decompressed to compressed bytes. It is 20 to 50 for typical tables, and 1,000 for zeros."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"


def read_text(path: str | os.PathLike[str], remedy: str | None = None) -> str:
    """Read UTF-8 text without its byte order mark. For another encoding, raise GraphError with the remedy."""
    return decoded(read_bytes(path), shortened_path(Path(path).name), remedy)


def decoded(data: bytes, source: str, remedy: str | None = None) -> str:
    """Decode UTF-8 bytes; if they are invalid, raise GraphError with the name of the file."""
    todo = remedy or "save the file as UTF-8"
    if data[:2] in UTF_16:
        raise GraphError("{source!p}: the text is UTF-16; {todo!w}", source=source, todo=todo)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraphError(
            "{source!p}: byte {start} is not UTF-8 text; {todo!w}", source=source, start=error.start, todo=todo
        ) from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a file and decompress gzip. Raise GraphError if the file is missing or too large."""
    limit = read_limit()
    shown = shortened_path(os.fspath(path))
    try:
        with open(path, "rb") as file:
            data = _read_up_to(file, limit)
    except FileNotFoundError as error:
        raise GraphError("no such file: {shown!w}", shown=shown) from error
    except IsADirectoryError as error:
        raise GraphError("{shown!w} is a directory; name a file in it", shown=shown) from error
    except (OSError, ValueError) as error:  # ValueError: impossible file name
        raise unreadable(path, error) from error
    if data is not None and data[:2] == _GZIP:
        packed = len(data)
        data = _decompressed(data, min(limit, expanded_limit(packed)), shown)
        if data is None and expanded_limit(packed) < limit:
            raise GraphError(
                "{shown!w}: {packed:,} bytes of gzip expand to over {max_expansion} times as many; unpack the file",
                shown=shown,
                packed=packed,
                max_expansion=MAX_EXPANSION,
            )
    if data is None:
        raise too_large(shown)
    return data


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError) -> GraphError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return GraphError("{fspath!p} cannot be read: {reason!w}", fspath=os.fspath(path), reason=reason)


def beginning(path: str | os.PathLike[str], size: int) -> str:
    """Read the beginning of a file, up to `size` bytes, as text; invalid bytes are replaced."""
    with open(path, "rb") as file:
        data = file.read(size)
    if data[:2] == _GZIP:
        import gzip
        import zlib

        with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) as stream:
            data = stream.read(size)
    return data.decode("utf-8-sig", "replace")


def read_limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE)
    try:
        return parse_bytes(text) if text else READ_LIMIT
    except ValueError as error:
        raise GraphError(
            "the environment variable {limit_variable!w}: {error!w}", limit_variable=LIMIT_VARIABLE, error=error
        ) from error


def expanded_limit(packed: int) -> int:
    """Return the maximum number of bytes to which `packed` compressed bytes may expand."""
    return max(2**22, MAX_EXPANSION * packed)


def too_large(what: str) -> GraphError:
    limit = format_bytes(read_limit())
    return GraphError(
        "{what!w} is larger than {limit!w}; to read it, set the environment variable {limit_variable!w}",
        what=what,
        limit=limit,
        limit_variable=LIMIT_VARIABLE,
    )


def _read_up_to(stream: IO[bytes], limit: int) -> bytes | None:
    """Read a stream to its end; return None if it exceeds the limit."""
    data = io.BytesIO()
    while piece := stream.read(2**20):
        data.write(piece)
        if data.tell() > limit:
            return None
    return data.getvalue()


def _decompressed(data: bytes, limit: int, source: str) -> bytes | None:
    import gzip  # rarely needed
    import zlib

    try:
        return _read_up_to(gzip.GzipFile(fileobj=io.BytesIO(data)), limit)  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        raise GraphError("{source!p}: damaged gzip data; is the file whole?", source=source) from error


def write_whole(file: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file in one step. Readers never see part of it; with `durable`, no power failure leaves part of it."""
    write_all({file: data}, durable=durable)


def write_all(contents: Mapping[Path, bytes], *, durable: bool = False) -> None:
    """Write several files; if one of them cannot be written, existing files stay unchanged."""
    staged: dict[Path, Path] = {}
    file = Path()
    try:
        for file, data in contents.items():
            if file.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not file.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "no such folder; create it first")
            if not _is_stream(file):
                target = file.resolve()
                # A short name, since names have a maximum length.
                temporary = target.with_name(f".{os.urandom(8).hex()}.part")
                staged[temporary] = target
                with open(temporary, "xb") as out:
                    _copy_mode(target, temporary)
                    out.write(data)
                    if durable:
                        out.flush()
                        os.fsync(out.fileno())
        for temporary, target in staged.items():
            os.replace(temporary, target)
        for folder in {target.parent for target in staged.values()} if durable else ():
            _sync_folder(folder)
        for file, data in contents.items():
            if _is_stream(file):
                file.write_bytes(data)
    except BaseException as error:
        for temporary in staged:
            with contextlib.suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError):
            error.filename = os.fspath(file)  # not the temporary file
        raise


def make_folder(folder: Path) -> None:
    """Create a folder unless it exists, and flush its directory entry to the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    # Windows cannot open folders, and some network drives cannot sync them.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _copy_mode(target: Path, temporary: Path) -> None:
    """Give the new, still empty file the mode of the existing file that it replaces."""
    with contextlib.suppress(FileNotFoundError):
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))


def _is_stream(file: Path) -> bool:
    return file.exists() and not file.is_file()


DEEPEST = 64
"""Maximum nesting of objects and lists; recursive Python functions fail at about 1000 levels."""

TOO_DEEP = f"objects and lists are nested deeper than {DEEPEST} levels"

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST = 19
"""Maximum number of digits of whole numbers; 64 bits need 19."""
_TOO_LONG = re.compile(rf"\d{{{_LONGEST + 1}}}", re.ASCII)


def json_of(text: str | bytes, *, exact: bool = False) -> Any:
    """Parse JSON from an untrusted source; if it is invalid or refused, raise ValueError with one sentence.

    NaN, Infinity, whole numbers of more than 19 digits, repeated keys, lone surrogates and more than `DEEPEST` levels
    are refused. With `exact`, decimals become Decimal, or int if they are whole, and numbers that are too large are
    clamped.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ArgumentError("byte {start} is not UTF-8 text", start=error.start) from error
    try:
        value = json.loads(
            text,
            parse_float=_exact if exact else _float,
            # A hook that is called for each number is slow, so it is set only if some number may be too long.
            parse_int=None if not _TOO_LONG.search(text) else _exact_whole if exact else _whole,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ArgumentError("not valid JSON at {place!w} ({msg})", place=place, msg=error.msg) from error
    except RecursionError:
        raise ArgumentError(TOO_DEEP) from None
    _check_depth(value)
    if _HALF.search(text):
        _check_texts(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        seen = set[str]()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ArgumentError("key {twice!r} is given twice; keep one", twice=twice)
    return record


def _no_number(name: str) -> Any:
    raise ArgumentError("{name} is not a number", name=name)


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _LONGEST:
        raise ArgumentError("the number {text} is too large", text=text)
    return int(text)


def _exact_whole(text: str) -> Any:
    # Numbers of up to 99 digits are clamped, so that the caller can report too large ones with their node.
    return int(text) if len(text) <= _LONGEST else decimal(text) if len(text) < 100 else _whole(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ArgumentError("the number {text} is too large", text=text)
    return number


def _exact(text: str) -> int | Decimal:
    number = decimal(text)
    return int(number) if isinstance(number, Decimal) and number == number.to_integral_value() else number


def _check_depth(value: Any) -> None:
    """Raise ValueError for nesting deeper than `DEEPEST`; recursion is avoided, since it could overflow here."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            each
            for entry in level
            for each in (entry.values() if type(entry) is dict else entry)
            if type(each) is dict or type(each) is list
        ]
        if not level:
            return
    raise ArgumentError(TOO_DEEP)


def _check_texts(value: Any) -> None:
    writer = json.JSONEncoder(ensure_ascii=False, default=str)
    try:
        writer.encode(value).encode()
    except UnicodeEncodeError:
        raise ArgumentError("a string has half of a surrogate pair, which is not a character") from None
