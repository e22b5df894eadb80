"""Parameters out of the scenario, and values as text that shows their type."""

import datetime
import decimal
import zlib

LONG = 200


def filled(text, schema, task=None):
    text = text.replace("{schema}", schema)
    if task is not None:
        text = text.replace("{nn}", f"{task:02}").replace("{n}", str(task))
    return text


def parameters(given, task=None):
    return [parameter(value, task) for value in given]


def parameter(value, task):
    if isinstance(value, str):
        return filled(value, "", task)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "long":
        return int(content)
    if kind == "decimal":
        return decimal.Decimal(content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "repeat":
        return content[0] * content[1]
    if kind == "repeat_bytes":
        return bytes.fromhex(content[0]) * content[1]
    if kind == "date":
        return datetime.date.fromisoformat(content)
    if kind == "datetime":
        return datetime.datetime.fromisoformat(content)
    if kind == "time":
        return datetime.time.fromisoformat(content)
    if kind == "task":
        return task
    raise ValueError(f"unknown parameter {kind}")


def show(value):
    """A value as text that tells its type; long ones by length and checksum."""
    kind = type(value).__name__
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value)
        text = value.hex() if len(value) <= LONG else summary(value)
    else:
        text = str(value)
        if len(text) > LONG:
            text = summary(text.encode())
    return f"{kind}:{text}"


def summary(data):
    return f"{len(data)} bytes, crc {zlib.crc32(data):08x}"


def show_rows(rows):
    return [[show(value) for value in row] for row in rows]


def show_error(error):
    number = getattr(error, "errno", None)
    if number is None and error.args and isinstance(error.args[0], int):
        number = error.args[0]
    shown = {"error": type(error).__name__, "code": number, "message": str(error)}
    state = getattr(error, "sqlstate", None)
    return {**shown, "state": state} if state else shown
