"""Runs one pickled call on a node. This file goes there as it is: Python 3.9, standard library alone.

Beside it lie ``calls.json``, with functions and arguments in base64, and the library that pickled them. It
leaves ``result.bin``: a line of JSON with the kind of the result, then a pickle.
"""

import base64
import io
import json
import os
import pickle
import shutil
import sys
import traceback
import typing
import zlib

MOST_RESULT = 64 << 20
"""Most bytes of a result."""


def run() -> None:
    with open("calls.json") as file:  # noqa: PTH123 -- as short to start as can be
        document = json.load(file)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != document["python"]:
        interpreter = shutil.which("python" + document["python"])
        if interpreter and not os.environ.get("PILOTAGE_OTHER_PYTHON"):
            os.environ["PILOTAGE_OTHER_PYTHON"] = "1"
            os.execv(interpreter, [interpreter, __file__])
        sys.exit(
            f"this function was pickled by Python {document['python']}, and this node has {version}: "
            "name a container or a conda environment that has it"
        )
    with open("pickling.zip", "wb") as archive:  # noqa: PTH123
        archive.write(base64.b64decode(document["library"]))
    sys.path.insert(0, os.path.abspath("pickling.zip"))  # noqa: PTH100
    import cloudpickle

    number, arguments = document["calls"][int(os.environ["PILOTAGE_INDEX"])]
    kind, value = outcome(document["functions"][number], arguments)
    try:
        result = cloudpickle.dumps(value)
        if len(result) > MOST_RESULT:
            raise ValueError(
                f"the result has {len(result)} bytes, above {MOST_RESULT}: write it to an output"
            )
    except Exception as error:
        kind, result = "raised", pickle.dumps(error_of(error))
    with open("result.bin", "wb") as file:  # noqa: PTH123
        file.write(json.dumps({"kind": kind}).encode() + b"\n" + result)


def outcome(function: str, arguments: str) -> "tuple[str, object]":
    """Return ``returned`` and the result, or ``raised`` and the error."""
    try:
        call = read(function)
        args, keywords = read(arguments)
        return "returned", call(*args, **keywords)
    except Exception as error:
        return "raised", error_of(error)


def error_of(error: Exception) -> Exception:
    """Return an error that can be sent, with its trace as text."""
    import cloudpickle

    trace = traceback.format_exc()
    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.remote_trace = trace  # type: ignore[attr-defined]
    return error


def read(text: str) -> "typing.Any":
    """Return the unpickled value."""
    return pickle.load(io.BytesIO(zlib.decompress(base64.b64decode(text))))


if __name__ == "__main__":
    run()
