"""Kernels: loops over arrays that run as Python where there is little to do, and are compiled where there is more.

Compiling takes seconds, for which small tables need not wait. A call with little work therefore runs the function as it
is written, unless a compiled version is at hand; with more work, or after many calls, numba compiles it. Both give the
same numbers if a kernel

- adds up float32 numbers in ``np.float64(0.0)``: a Python float would become a float32;
- calls ``math.exp`` and ``math.log``, and ``sorting.total`` for sums of floats: NumPy rounds differently;
- sorts with :mod:`sfumato.kernels.sorting`, or stably: else the order of equal keys differs;
- uses no ``fastmath``.

Only a kernel that Python calls becomes machine code. The kernels that it calls are linked into it and optimized there,
once instead of once per caller, which takes a fraction of the time.

numba keeps a compiled function until the file that defines it changes. The functions that it calls may be in other
files, so each folder of the cache contains a fingerprint of all kernels and is cleared if that differs. Where no folder
can be written, or the disk is full, kernels are compiled in every process, and a warning says so once. A damaged file
of the cache counts as none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

STAMP = "kernels.fingerprint"
USES_JIT = re.compile(rb"\bjit import jit\b")

WORTH_SAYING = 1.0  # seconds of compiling
IMPORT_TIME = 0.3e6  # microseconds that importing numba takes: less work is done before that, even if all is compiled

log = logging.getLogger("sfumato.kernels")


def jit(
    function: Callable[..., Any] | None = None,
    *,
    work: Callable[..., float] | None = None,
    seconds: float = 2.0,
    plain: Callable[..., Any] | None = None,
    allocates: bool = True,
    **options: Any,
) -> Any:
    """Make a kernel of a function over arrays, numbers and named tuples of them.

    ``work`` returns about how many microseconds a call with these arguments takes as Python, if that is not about the
    number of array elements. A kernel may take ``seconds`` as Python in one process, about as long as compiling it
    takes. ``plain`` is a version that is faster as Python and gives the same numbers. A kernel that makes
    no arrays, and calls none that returns one, says ``allocates=False``: references to the arrays that it is given are
    then not counted, which takes half of the time of small loops. Other options are those of ``numba.njit``:
    ``forceinline=True`` suits small functions that inner loops call.
    """

    def kernel(given: Callable[..., Any]) -> LoopKernel:
        return LoopKernel(given, plain or given, work or count_elements, seconds, allocates, options)

    return kernel if function is None else kernel(function)


class LoopKernel:
    """A function that runs as it is written, or compiled. Kernels that it calls are treated in the same way."""

    def __init__(
        self,
        function: Callable[..., Any],
        plain: Callable[..., Any],
        work: Callable[..., float],
        seconds: float,
        allocates: bool,
        options: dict[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self.py_func, self.as_python, self._work = function, plain, work
        self._allocates, self._given = allocates, options
        self._allowed, self._is_compiled = 1e6 * seconds, False
        self._left = self._allowed  # microseconds that it may still take as Python

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # pickled by its name, like a function

    def __call__(self, *arguments: Any) -> Any:
        return self._call(None, *arguments)

    def or_plain(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return this kernel with another function in the place of its Python: one that remembers what it found."""
        return partial(self._call, plain)

    def _call(self, plain: Callable[..., Any] | None, *arguments: Any) -> Any:
        if self._is_plain(arguments):
            with np.errstate(all="ignore"):  # hashes overflow on purpose, and compiled code does not warn either
                return (plain or self.plain)(*arguments)
        self._is_compiled = True
        return self.compiled(*arguments)

    def expect(self, work: float) -> None:
        """Compile the next calls from the first one on if they take more microseconds as Python than are left."""
        self._is_compiled = self._is_compiled or self._left < work

    def _is_plain(self, arguments: tuple[Any, ...]) -> bool:
        if self._is_plain_forced:
            return True
        if _forced:
            return False
        if self._is_compiled:
            return False
        self._left -= self._work(*arguments)
        if "numba" not in sys.modules and self._allowed - self._left < IMPORT_TIME:
            return self._left >= 0.0
        return self._left >= 0.0 and not self._is_kept(arguments)

    @property
    def _is_plain_forced(self) -> bool:
        return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or (bool(_forced) and not _forced[-1])

    def _is_kept(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a version for arguments of these types is in the cache."""
        if not self._may_be_kept:
            return False
        types, kept = tuple(map(self.compiled.typeof_pyval, arguments)), self.compiled._cache
        try:
            return kept._index_key(types, self.compiled.targetctx.codegen()) in kept._cache_file._load_index()
        except AttributeError:  # no folder can be written, or another version of numba
            return False

    @cached_property
    def _may_be_kept(self) -> bool:
        """Whether the cache has any version; found out without numba, which takes a while to import."""
        source, given = Path(self.py_func.__code__.co_filename), os.environ.get("NUMBA_CACHE_DIR")
        folders = [Path(given)] if given else [source.parent / "__pycache__", Path.home() / ".cache" / "numba"]
        index = f"{source.stem}.{self.py_func.__name__}-*.nbi"
        return any(next(folder.rglob(index), None) for folder in folders)

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The function, in a module whose kernels are such functions, too."""
        plain: Callable[..., Any] = _plain_module(self.py_func.__module__)[self.py_func.__name__]
        return plain

    @cached_property
    def compiled(self) -> Any:
        """The function that Python calls, compiled when it is called for the first time."""
        compiled = _dispatcher(self.py_func, self._options)
        try:
            compiled.enable_caching()
            forget_stale(Path(compiled.stats.cache_path))
        except (OSError, RuntimeError):  # RuntimeError: numba found no folder that it can write
            warn_uncached()
            return _dispatcher(self.py_func, self._options)
        _tolerate_damage(compiled)
        _keep_if_possible(compiled)
        return compiled

    def start_cache(self, *arguments: Any) -> None:
        """Compile and keep this kernel if it never was, so that a cache is there before a large table needs it."""
        if self._may_be_kept or self._is_plain_forced:
            return
        with warnings.catch_warnings(action="ignore"):  # where nothing can be kept, small tables need not hear of it
            compiled = self.compiled
        if hasattr(compiled._cache, "_cache_file"):
            compiled.compile(tuple(map(compiled.typeof_pyval, arguments)))

    @property
    def _options(self) -> dict[str, Any]:
        """The options of numba, with its runtime for memory (NRT) or, if it can do without, without it."""
        try:
            from numba.core.options import DefaultOptions
        except ImportError:  # another version of numba
            return self._given
        return {"_nrt": self._allocates, **self._given} if hasattr(DefaultOptions, "_nrt") else self._given

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments that it was compiled for, or loaded from the cache."""
        signatures: list[Any] = self.compiled.signatures
        return signatures

    @cached_property
    def _linked(self) -> Any:
        """The function that other kernels call. It has no machine code of its own."""
        from numba import njit, types

        # a copy: a kernel that calls itself would be the function that is being compiled
        function = update_wrapper(FunctionType(self.py_func.__code__, self.py_func.__globals__), self.py_func)
        linked = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **self._options)(function)
        of_types = linked.get_call_template
        # constants are numbers like others: a version for each would be compiled else
        linked.get_call_template = lambda arguments, named: of_types(tuple(map(types.unliteral, arguments)), named)
        return linked

    @property
    def _numba_type_(self) -> Any:
        """What numba asks for where a kernel uses the name of another one."""
        return self._linked._numba_type_


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from numba import njit

    try:
        compiler = {"pipeline_class": _outermost_compiler()}
    except (ImportError, AttributeError):  # another version of numba: kernels are compiled one by one, which is slower
        compiler = {}
    return njit(nogil=True, no_cfunc_wrapper=True, **compiler, **options)(function)


@cache
def _outermost_compiler() -> Any:
    """Return a compiler that links all code that a kernel calls into it before anything is optimized."""
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.compiler import Compiler

    replaced = ("get_pointer_to_function", "_optimize_functions", "finalize", "_get_module_for_linking")
    if JITCPUCodegen._library_class is not JITCodeLibrary or not all(hasattr(JITCodeLibrary, one) for one in replaced):
        raise AttributeError("this version of numba makes machine code in another way")

    own_module = JITCodeLibrary._get_module_for_linking

    def link_into(module: Any, libraries: list[Any]) -> list[Any]:
        """Link the code of these libraries, and of those that they call, into a module; return them all."""
        every: dict[Any, None] = {}
        while libraries := [one for one in libraries if one not in every]:
            every.update(dict.fromkeys(libraries))
            libraries = [called for one in libraries if isinstance(one, Linked) for called in one._linking_libraries]
        for library in every:
            module.link_in(own_module(library), preserve=True)
        return list(every)

    class Linked(JITCodeLibrary):  # type: ignore[misc]
        """Code that is neither optimized by itself nor turned into machine code. What it calls stays apart."""

        codegen = property(lambda self: self)

        def set_env(self, *_: Any) -> None:
            """Nothing to set: there is no machine code."""

        def get_pointer_to_function(self, _: str) -> int:
            return 0

        def _optimize_functions(self, _: Any) -> None:
            """Nothing yet: the kernel that calls them is optimized as a whole."""

        def finalize(self) -> None:
            for library in self._linking_libraries:
                self._reload_init.update(library._reload_init)
            self._finalize_dynamic_globals()
            self._finalized = True

        def _get_module_for_linking(self) -> Any:
            """Return the code with all that it calls: for functions that are no kernels of ours."""
            module = own_module(self).clone()
            link_into(module, self._linking_libraries)
            return module

    class Whole(JITCodeLibrary):  # type: ignore[misc]
        """The code of a kernel that Python calls, with all that it calls."""

        def finalize(self) -> None:
            for library in link_into(self._final_module, self._linking_libraries):
                self._reload_init.update(library._reload_init)
            self._linking_libraries.clear()
            super().finalize()

    class Outermost(Compiler):  # type: ignore[misc]
        def compile_extra(self, func: Callable[..., Any]) -> Any:
            generator = self.state.targetctx.codegen()
            self.state.library = Whole(generator, func.__qualname__)
            self.state.library.enable_object_caching()
            _say_once()
            started, began = time.process_time(), time.monotonic()
            generator._library_class, usual = Linked, generator._library_class
            try:
                return super().compile_extra(func)
            finally:
                generator._library_class = usual
                _compiling.append(time.monotonic() - began)
                seconds = time.process_time() - started
                if seconds >= WORTH_SAYING:
                    log.info("compiled the kernel %s in %.0f s", func.__name__.strip("_"), seconds)

    return Outermost


def working_time() -> float:
    """Return a clock, in seconds, that stands still while kernels are compiled: for limits of time."""
    return time.monotonic() - sum(_compiling)


def _plain_module(name: str) -> dict[str, Any]:
    """Return the names of a module, with the functions of kernels as they are written."""
    with _one_thread:
        if name not in _plain_modules:
            module = vars(sys.modules[name])
            names = dict(module)
            for key, value in module.items():
                if isinstance(value, LoopKernel):
                    own = value.__module__ == name
                    names[key] = _with_names(value.as_python, names) if own else value.plain
            _plain_modules[name] = names
        return _plain_modules[name]


def _with_names(function: Callable[..., Any], names: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that finds its global names here; one of NumPy needs none."""
    return FunctionType(function.__code__, names) if isinstance(function, FunctionType) else function


_one_thread = threading.RLock()
_plain_modules: dict[str, dict[str, Any]] = {}
_compiling: list[float] = []  # seconds that each compilation took
_forced: list[bool] = []  # the last one says whether kernels are compiled


@contextmanager
def always_compiled() -> Iterator[None]:
    """Compile every kernel that is called, however little there is to do."""
    _forced.append(True)
    try:
        yield
    finally:
        _forced.pop()


@contextmanager
def always_plain() -> Iterator[None]:
    """Run every kernel as Python, however much there is to do."""
    _forced.append(False)
    try:
        yield
    finally:
        _forced.pop()


def count_elements(*arguments: Any) -> float:
    """Return the number of elements of all arrays, also of those in tuples."""
    count = 0.0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            count += argument.size
        elif isinstance(argument, tuple):
            count += count_elements(*argument)
    return count


@cache
def _say_once() -> None:
    log.info("compiling kernels, which is done once; `sfumato warm` does it beforehand")


@cache
def warn_uncached() -> None:
    """Say once that compiled kernels cannot be kept."""
    from sfumato.errors import warn

    warn(
        "Compiled kernels cannot be kept, because no cache folder can be written: every process that works on a large "
        "table compiles them again, which takes up to half a minute. Set NUMBA_CACHE_DIR to a folder that can be "
        "written."
    )


def _tolerate_damage(compiled: Any) -> None:
    """Let a damaged file of the cache count as none: it is replaced when the kernel has been compiled again."""
    try:
        compiled._cache._cache_file.__class__ = _checked_cache_file()
    except (ImportError, AttributeError, TypeError):  # another version of numba
        log.debug("the files of the cache are not checked")


@cache
def _checked_cache_file() -> Any:
    from numba.core.caching import IndexDataCacheFile

    class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
        """The cache of one kernel, whose machine code is only run if it is as it was written."""

        def _load_index(self) -> Any:
            try:
                return super()._load_index()
            except Exception:  # unpickling damaged bytes may raise anything
                return {}

        def _dump(self, obj: Any) -> bytes:
            content = super()._dump(obj)
            return bytes(content) + hashlib.sha256(content).digest()  # pickle ignores what follows

        def _load_data(self, name: str) -> Any:
            content = Path(self._data_path(name)).read_bytes()
            size = hashlib.sha256().digest_size
            if hashlib.sha256(content[:-size]).digest() != content[-size:]:
                raise OSError("a damaged file")  # numba then compiles
            return super()._load_data(name)

    return CheckedCacheFile


def _keep_if_possible(compiled: Any) -> None:
    """Let a full disk be no reason to fail: what cannot be kept is used all the same."""
    save = compiled._cache.save_overload

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError:
            warn_uncached()

    compiled._cache.save_overload = save_if_possible


@cache
def fingerprint() -> str:
    """Return a hash of all files of this installation that contain kernels."""
    sources = ((file, file.read_bytes()) for file in sorted(Path(__file__).parent.parent.rglob("*.py")))
    kernels = (
        file.name.encode() + source for file, source in sources if USES_JIT.search(source) or file.name == "jit.py"
    )
    return hashlib.sha256(b"\0".join(kernels)).hexdigest()


@cache
def forget_stale(folder: Path) -> None:
    """Clear a cache that was filled by other kernels, once per process. numba uses only folders that are writable."""
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_bytes() == fingerprint().encode():
        return
    for file in (*folder.glob("*.nbi"), *folder.glob("*.nbc")):
        file.unlink(missing_ok=True)  # another process may be doing the same
    written = stamp.with_name(f"{STAMP}.{os.getpid()}")
    written.write_text(fingerprint())
    written.replace(stamp)
