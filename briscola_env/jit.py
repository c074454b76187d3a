"""How kernels are compiled, and two bit-set instructions that numba does not expose.

A *kernel* is a function compiled by numba. `kernel` is the one decorator for it: without the
interpreter lock, cached on disk, with NumPy's (unchecked) division. A set of cards is a signed
64-bit integer whose bit `card` is set, so `popcount` counts cards and `lowest` finds the first.
"""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parent


def _sources_digest() -> str:
    """Hash of every source with kernels: an edit anywhere refreshes all of them.

    numba itself notices only an edit of the file that a cached kernel stands in, not of those
    whose kernels it calls. Bounds checking changes the code and not numba's key, so it is in here.
    """
    digest = hashlib.sha256(str(config.BOUNDSCHECK).encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"kernel\ndef " in source:
            digest.update(source)
    return digest.hexdigest()[:16]


def _is_ours(folder: Path) -> bool:
    """True if nobody else can write into `folder`: cached kernels are code that we will run."""
    if os.name != "posix":
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _cache_folder() -> str:
    """The first writable place for compiled kernels: numba's own setting, the package, temp."""
    name = f"kernels-{_sources_digest()}"
    if config.CACHE_DIR:
        return str(Path(config.CACHE_DIR) / name)
    user = os.getuid() if os.name == "posix" else "user"
    for base in (PACKAGE / "__pycache__", Path(tempfile.gettempdir()) / f"briscola_env-{user}"):
        folder = base / name
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            if base.parent == PACKAGE or _is_ours(folder):
                return str(folder)
    return tempfile.mkdtemp(prefix="briscola_env-")


_CACHE_FOLDER = _cache_folder()


def kernel(function: F) -> F:
    """Compile `function` on first use and keep the result on disk.

    With NUMBA_DISABLE_JIT=1 it stays Python; NumPy's warnings about wrapping integers, which the
    generator relies on, are then off inside it.
    """
    return _compile(function)


def inlined_kernel(function: F) -> F:
    """A kernel that is always compiled into those that call it, for what is done for every game.

    A call with an array counts a reference to it, atomically, which takes as long as writing a
    hundred features. numba leaves that out where such kernels take no more than one array and call
    no others that are not compiled in.
    """
    return _compile(function, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    if config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)
    # numba reads its cache folder when a kernel is declared: lend it ours for that moment only.
    previous, config.CACHE_DIR = config.CACHE_DIR, _CACHE_FOLDER
    try:
        decorate = njit(cache=True, nogil=True, error_model="numpy", **options)
        return decorate(function)  # type: ignore[no-any-return]
    finally:
        config.CACHE_DIR = previous


if config.DISABLE_JIT:

    def popcount(cards: Any) -> int:
        """Number of cards in the set."""
        return int(cards).bit_count()

    def lowest(cards: Any) -> int:
        """Smallest card id in a set that is not empty."""
        return (int(cards) & -int(cards)).bit_length() - 1

    def _bits_writer(count: int) -> Any:
        def write(out: Any, row: Any, at: Any, bits: Any) -> None:
            for k in range(count):
                out[row, at + k] = int(bits) >> k & 1

        return write

else:

    @intrinsic
    def popcount(typing_context: Any, cards: Any) -> Any:
        """Number of cards in the set."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.int64), generate

    @intrinsic
    def lowest(typing_context: Any, cards: Any) -> Any:
        """Smallest card id in a set that is not empty."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

        return types.int64(types.int64), generate

    def _bits_writer(count: int) -> Any:
        def write(typing_context: Any, out: Any, row: Any, at: Any, bits: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                out, row, at, bits = arguments
                octets = ir.VectorType(ir.IntType(8), count)
                flags = builder.trunc(bits, ir.IntType(count))
                flags = builder.bitcast(flags, ir.VectorType(ir.IntType(1), count))
                array = context.make_array(signature.args[0])(context, builder, out)
                row_size = cgutils.unpack_tuple(builder, array.strides)[0]
                place = builder.add(builder.mul(row, row_size), at)
                start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
                start = builder.bitcast(builder.gep(start, [place]), octets.as_pointer())
                builder.store(builder.zext(flags, octets), start, align=1)
                return context.get_dummy_value()

            return types.void(out, types.int64, types.int64, types.int64), generate

        return intrinsic(write)


write_8_bits, write_32_bits = _bits_writer(8), _bits_writer(32)
"""`write_8_bits(out, row, at, bits)`: the lowest bits as bytes of 0 and 1 into
out[row, at : at + 8], unchecked. `out` has items of one byte and no gaps within a row. It is one
instruction where the processor has AVX-512, a few elsewhere."""


@kernel
def bit(card: Any) -> Any:
    """The set that holds only this card."""
    return np.int64(1) << np.int64(card)


@inlined_kernel
def wrapped(number: Any, n: Any) -> Any:
    """`number % n` for 0 <= number < 2 n: a seat or side in turn order, without a division."""
    return number - n if number >= n else number


@inlined_kernel
def write_cards(out: Any, row: Any, at: Any, cards: Any) -> None:
    """A set of cards as 40 bytes of 0 and 1 into out[row, at : at + 40]."""
    write_32_bits(out, row, at, cards)
    write_8_bits(out, row, at + 32, cards >> 32)
