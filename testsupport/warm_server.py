"""The warm process: imports what programs of tests need, and becomes each of them in a fork."""

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

import forks

ARGUMENTS_BEGIN = 47  # the place of arg_start in /proc/self/stat, proc(5); arg_end is the next
STARTERS = (["run"], ["up"], ["ensemble"])
"""Commands of bbflow that start others."""
BEGUN_WITH = dict(os.environ)


def serve(asked):
    """Fork a process for each program that is asked for; return the program in its own process, None at the end."""
    while True:
        message, files, *_ = socket.recv_fds(asked, 1 << 20, 3)
        if not message:
            return None
        go, hold = os.pipe()
        middle = fork()
        if middle == 0:
            if fork():
                os._exit(0)  # so the program's next parent is pytest's process
            os.close(hold)
            os.read(go, 1)  # until that is so
            os.close(go)
            words = become(json.loads(message), files)
            asked.send(str(os.getpid()).encode())
            asked.close()
            asked = None
            if words[1:3] == ["-m", "bbflow"] and words[3:4] in STARTERS:
                asked = warm_again()
            if asked is None:
                return words
            continue
        os.waitpid(middle, 0)
        for file in (hold, go, *files):
            os.close(file)


def warm_again():
    """Begin another warm process for what this one is to start; return what it is asked by, None in this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if fork():
        theirs.close()
        forks.Popen.servers = (forks.Server(BEGUN_WITH, lambda: (ours, None)),)
        subprocess.Popen = forks.Popen
        return None
    ours.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in range(3):
        os.dup2(nothing, file)
    os.close(nothing)
    show([sys.executable, __file__])
    return theirs


def fork():
    """Fork; NumPy's library has threads, and stands this."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process.*is multi-threaded", DeprecationWarning)
        return os.fork()


def become(program, files):
    """Take over what a process has from its parent, and what an interpreter draws at its start; return the words."""
    for own, file in enumerate(files):
        os.dup2(file, own)
    for file in files:
        os.close(file)
    for own, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, opened_as(getattr(sys, name), own))
        setattr(sys, f"__{name}__", getattr(sys, name))
    if program["alone"]:
        os.setsid()
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["environment"])
    if program["hears_interrupts"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["numpy"].random.seed()
    show(program["words"])
    return program["words"]


def opened_as(old, own):
    """Open a stream as the interpreter has, which then looks whether one can seek in the file."""
    binary = open(own, old.buffer.mode, 0 if isinstance(old.buffer, io.FileIO) else -1, closefd=False)  # noqa: SIM115
    getattr(binary, "raw", binary).name = old.name
    kept = {"line_buffering": old.line_buffering, "write_through": old.write_through}
    stream = io.TextIOWrapper(binary, old.encoding, old.errors, "\n", **kept)
    stream.mode = old.mode
    return stream


def show(words):
    """Show others these words as the process'."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (int(fields[at - 2]) for at in (ARGUMENTS_BEGIN, ARGUMENTS_BEGIN + 1))
    text = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))


def run(words):
    """Run a program as an interpreter does that begins with it."""
    sys.orig_argv = words
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    kind, name = words[1], words[2:3]
    if kind == "-m":
        sys.argv, sys.path[0] = ["-m", *words[3:]], os.getcwd()
        runpy._run_module_as_main(*name)  # as the interpreter itself
    elif kind == "-c":
        sys.argv, sys.path[0] = ["-c", *words[3:]], ""
        exec(compile(*name, "<string>", "exec"), vars(main))
    else:
        sys.argv, sys.path[0], main.__file__ = words[1:], str(Path(kind).resolve().parent), kind
        exec(compile(Path(kind).read_bytes(), kind, "exec"), vars(main))


def to_its_end(words):
    """Run a program, and end its process as an interpreter does; only what was there before the fork isn't taken down.

    That alone would cost more than most programs do: all of it would be copied for this process.
    """
    code = exit_code(words)
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(sys.modules["__main__"]).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr)
            code = 120
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    ctypes.PyDLL(None).exit(code)  # with the interpreter's lock, so that no thread runs on meanwhile


def exit_code(words):
    """Run a program; return what it ends with, -SIGINT where nothing has caught this."""
    try:
        run(words)
        return 0
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in sys.argv[2:-1]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    if words := serve(socket.socket(fileno=int(sys.argv[1]))):
        to_its_end(words)
