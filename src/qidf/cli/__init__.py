"""The command line: one module a command, imported when it is used. Here, how any error becomes one line.

Knows nothing of ranking. Everything is imported inside `main`, so that an interrupt at any moment ends in one line too.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 2 after an error, 130 when interrupted. Never a traceback."""
    try:
        return _run(arguments)
    except BaseException as error:
        return _report(_interrupt(error) or error)


def _run(arguments: list[str] | None) -> int:
    import os
    import sys

    from qidf.cli.group import group

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    if "_QIDF_COMPLETE" in os.environ:
        group.main(arguments, prog_name="qidf")
    with group.make_context("qidf", list(sys.argv[1:] if arguments is None else arguments)) as context:
        group.invoke(context)
    sys.stdout.flush()
    return 0


def _interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that led to `error`, if one did: an import that is interrupted may fail in its own way."""
    seen: BaseException | None = error
    for _ in range(20):
        if isinstance(seen, KeyboardInterrupt):
            return seen
        seen = seen and (seen.__cause__ or seen.__context__)
    return None


def _report(error: BaseException) -> int:
    import os
    import sys

    message, status = "", 2
    try:
        from click.exceptions import Abort, ClickException, Exit, UsageError

        from qidf.errors import DictionaryCorruptError, EngineCorruptError, IndexCorruptError, QidfError

        if isinstance(error, Exit):
            status = error.exit_code
            sys.stdout.flush()
        elif isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 2 * bool(error.code)
        elif isinstance(error, (KeyboardInterrupt, Abort)):
            message, status = "interrupted", 130
        elif isinstance(error, BrokenPipeError):
            status = 1  # whoever read us has seen enough
        elif isinstance(error, ClickException):
            message = error.format_message().strip().removesuffix(".")
            message = message[:1].lower() + message[1:]
            if isinstance(error, UsageError) and error.ctx is not None:
                message += f" (see {error.ctx.command_path} --help)"
        elif isinstance(error, MemoryError):
            message = "out of memory"
        elif isinstance(error, OSError):
            why = error.strerror or str(error)
            message = f"{_name(error.filename)}: {why}" if error.filename is not None else why
        elif isinstance(error, (QidfError, ValueError)):
            message = str(error)
            theirs = isinstance(error, EngineCorruptError | DictionaryCorruptError)
            if isinstance(error, DictionaryCorruptError) and "dictionary build" not in message:
                message += " (make it again: qidf dictionary build)"
            ours = isinstance(error, IndexCorruptError) and not theirs
            if ours and "--rebuild" not in message:
                message += " (build the index again: qidf index PATH --rebuild)"
        else:
            message = f"unexpected {type(error).__name__}: {error} (a bug of qidf's: QIDF_TRACEBACK=1 shows where)"
            if os.environ.get("QIDF_TRACEBACK"):
                import traceback

                traceback.print_exception(error)
    except BrokenPipeError:
        message, status = "", 1
    except OSError as broken:
        message = broken.strerror or str(broken)
    except (KeyboardInterrupt, MemoryError):
        message, status = "interrupted", 130
    try:
        if message:
            from qidf.cli.output import clean

            sys.stderr.write(f"qidf: error: {clean(' '.join(message.split()))}\n")
            sys.stderr.flush()
    except (OSError, ValueError, KeyboardInterrupt):
        pass  # nobody listens
    if isinstance(error, OSError) or status == 1:
        _forget_output()
    return status


def _forget_output() -> None:
    """Point standard output at nothing, so that the interpreter's last flush can't fail again."""
    import os
    import sys

    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)
        except (OSError, ValueError):
            pass


def _name(filename: object) -> str:
    import os

    return os.fsdecode(filename) if isinstance(filename, (str, bytes)) else str(filename)


__all__ = ["main"]
