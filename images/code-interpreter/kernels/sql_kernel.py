"""A Jupyter kernel for SQL. The database is MySQL's `sandbox` where a server listens inside the sandbox (127.0.0.1:3306, root without
a password, and PyMySQL is installed), and a file of SQLite's otherwise: sandbox.db in the working directory, or what
SQL_DATABASE names. Each statement gives {"columns": [...], "rows": [[...]]}, as JSON text and as an HTML table."""

import html
import json
import os
import re
import signal
import socket
import sqlite3

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

MAX_ROWS = 10_000
# What a semicolon may be in without ending a statement, closed or not; each byte is looked at once.
TOKEN = re.compile(r"""'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;""", re.S)
TRIGGER = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:EXPLAIN\s+)?CREATE\s+(?:TEMP\s+|TEMPORARY\s+)?TRIGGER\b", re.I | re.S)
PORT = int(os.environ.get("SQL_PORT", "3306"))


class Failure(Exception):
    def __init__(self, name, text):
        super().__init__(text)
        self.name = name


def listens():
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=5).close()
        return True
    except OSError:
        return False


def mysql():
    """None where there is no such server."""
    try:
        import pymysql
    except ImportError:
        return None
    if not listens():
        return None
    connection = pymysql.connect(host="127.0.0.1", port=PORT, user="root", autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS sandbox")
    connection.select_db("sandbox")
    return connection


def sqlite():
    path = os.environ.get("SQL_DATABASE", "sandbox.db")
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=10)
        connection.execute("PRAGMA user_version").fetchall()
    except sqlite3.OperationalError:
        connection = sqlite3.connect(":memory:", isolation_level=None)  # a directory that cannot be written to
    return connection


def statements(text):
    """A semicolon ends one, outside of quotes, comments and the bodies of triggers."""
    start = 0
    for found in TOKEN.finditer(text):
        part = text[start:found.end()] if found.group() == ";" else ""
        if part and (sqlite3.complete_statement(part) if TRIGGER.match(part) else True):
            yield part
            start = found.end()
    yield text[start:]


def is_blank(statement):
    lines = [line.split("--")[0].split("#")[0] for line in statement.splitlines()]
    return not "".join(lines).replace(";", "").strip()


def cell(value):
    if value is None:
        return None
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def table(columns, rows):
    def row(tag, cells):
        return "<tr>" + "".join(f"<{tag}>{html.escape('NULL' if c is None else str(c))}</{tag}>" for c in cells) + "</tr>"
    return "<table>" + row("th", columns) + "".join(row("td", r) for r in rows) + "</table>"


class SqlKernel(Kernel):
    implementation = "opensandbox-sql"
    implementation_version = "1"
    banner = "SQL"
    language_info = {"name": "sql", "mimetype": "application/sql", "file_extension": ".sql"}
    connection = None
    stop = waiting = False

    def interrupt(self, *_):
        """A handler and no exception, which could come anywhere; only a server's answer is waited for without a look at `stop`."""
        self.stop = True
        if self.waiting:
            raise KeyboardInterrupt

    def connect(self):
        if self.connection is None:
            try:
                self.connection = mysql() or sqlite()
            except Exception as e:
                raise Failure("DBInitError", str(e)) from e
            if isinstance(self.connection, sqlite3.Connection):
                self.connection.set_progress_handler(lambda: 1 if self.stop else 0, 10_000)
        return self.connection

    def one(self, statement):
        connection = self.connect()
        words = statement.split(None, 1)
        reads = bool(words) and words[0].upper() in ("SELECT", "WITH", "SHOW", "PRAGMA", "EXPLAIN", "DESCRIBE", "VALUES")
        cursor = connection.cursor()
        try:
            self.waiting = not isinstance(connection, sqlite3.Connection)
            if self.stop:
                raise KeyboardInterrupt
            cursor.execute(statement)
            if cursor.description is None:
                return {"columns": ["affected_rows"], "rows": [[max(0, cursor.rowcount)]]}
            rows = [[cell(v) for v in row] for row in cursor.fetchmany(MAX_ROWS + 1)]
        except KeyboardInterrupt as e:
            self.connection = connection if isinstance(connection, sqlite3.Connection) else None
            raise Failure("KeyboardInterrupt", "the statement was interrupted") from e
        except Exception as e:
            if "interrupted" in str(e):
                raise Failure("KeyboardInterrupt", "the statement was interrupted") from e
            if not isinstance(connection, sqlite3.Connection) and not connection.open:
                self.connection = None  # the server has gone: the next run looks again
            raise Failure("DBQueryError" if reads else "DBExecError", str(e)) from e
        finally:
            self.waiting = False
        result = {"columns": [d[0] for d in cursor.description], "rows": rows[:MAX_ROWS]}
        return {**result, "truncated": True} if len(rows) > MAX_ROWS else result

    def publish(self, kind, **content):
        self.send_response(self.iopub_socket, kind, content)

    def show(self, result, last):
        data = {"text/plain": json.dumps(result, ensure_ascii=False, separators=(",", ":")),
                "text/html": table(result["columns"], result["rows"])}
        if last:
            self.publish("execute_result", execution_count=self.execution_count, data=data, metadata={})
        else:
            self.publish("display_data", data=data, metadata={})

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        self.stop = False
        before = signal.signal(signal.SIGINT, self.interrupt)
        try:
            return self.execute(code)
        finally:
            signal.signal(signal.SIGINT, before)

    def execute(self, code):
        todo = [s for s in statements(code) if not is_blank(s)]
        try:
            for i, statement in enumerate(todo):
                self.show(self.one(statement), i == len(todo) - 1)
        except Failure as e:
            failed = {"ename": e.name, "evalue": str(e), "traceback": [f"{e.name}: {e}", statement.strip()]}
            self.publish("error", **failed)
            return {"status": "error", "execution_count": self.execution_count, **failed}
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=SqlKernel)
