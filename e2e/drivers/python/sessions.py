"""The drivers, each behind the same few methods, in its own idiom."""

import asyncio
import contextlib
import os
import queue
import ssl
import threading

from values import show_rows, summary, show

TARGET = {
    "host": os.environ["DRIVER_HOST"],
    "port": int(os.environ["DRIVER_PORT"]),
    "user": os.environ["DRIVER_USER"],
    "password": os.environ["DRIVER_PASSWORD"],
    "database": os.environ["DRIVER_SCHEMA"],
}
TLS = os.environ["DRIVER_TLS"] == "on"
# CLIENT_MULTI_STATEMENTS
MULTI_STATEMENTS = 1 << 16


def unverified():
    """TLS that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context



class Session:
    """A connection of a driver with the Python database API."""

    # Keyword arguments of an unbuffered cursor.
    unbuffered = {}

    def __init__(self, raw):
        self.raw = raw

    def close(self):
        self.raw.close()

    def cursor(self, **kwargs):
        return self.raw.cursor(**kwargs)

    def run(self, sql, params=None):
        cursor = self.cursor()
        try:
            if params is None:
                cursor.execute(sql)
            else:
                cursor.execute(sql.replace("?", "%s"), tuple(params))
            return self.outcome(cursor)
        finally:
            cursor.close()

    def outcome(self, cursor):
        if cursor.description is None:
            return {"affected": cursor.rowcount, "id": cursor.lastrowid}
        columns = [[column[0], show(column[1])] for column in cursor.description]
        return {"columns": columns, "rows": show_rows(cursor.fetchall())}

    def batch(self, sql, rows):
        cursor = self.cursor()
        try:
            cursor.executemany(sql.replace("?", "%s"), rows)
            return {"affected": cursor.rowcount, "id": cursor.lastrowid}
        finally:
            cursor.close()

    def stream(self, sql, take):
        cursor = self.cursor(**self.unbuffered)
        cursor.execute(sql)
        seen = []
        while (row := cursor.fetchone()) is not None:
            seen.append(",".join(show(value) for value in row))
            if take is not None and len(seen) == take:
                break
        cursor.close()
        return {"rows": len(seen), "content": summary("\n".join(seen).encode())}

    def multi(self, sql):
        cursor = self.cursor()
        results = []
        try:
            cursor.execute(sql)
            results.append(self.outcome(cursor))
            while cursor.nextset():
                results.append(self.outcome(cursor))
        except Exception as error:  # noqa: BLE001: after some results there is an error
            results.append(f"{type(error).__name__} {error}")
        finally:
            cursor.close()
        return results

    def call(self, procedure, params):
        cursor = self.cursor()
        cursor.callproc(procedure, tuple(params))
        sets = [self.outcome(cursor)]
        while cursor.nextset():
            sets.append(self.outcome(cursor))
        cursor.close()
        names = ", ".join(f"@_{procedure}_{index}" for index in range(len(params)))
        return {"sets": sets, "out": self.run(f"SELECT {names}")}

    def warnings(self, sql):
        cursor = self.cursor()
        cursor.execute(sql)
        cursor.fetchall()
        cursor.close()
        return [[show(value) for value in row] for row in self.raw.show_warnings() or ()]

    def prepare(self, sql):
        return Prepared(self, sql)

    def ping(self):
        self.raw.ping()
        return "alive"

    def begin(self):
        self.raw.begin()
        return "begun"

    def commit(self):
        self.raw.commit()
        return "committed"

    def rollback(self):
        self.raw.rollback()
        return "rolled back"

    def autocommit(self, on):
        self.raw.autocommit(on)
        return on

    def isolation(self, level):
        return self.run(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def schema(self, name):
        self.raw.select_db(name)
        return name

    def connection_id(self):
        return {"as the server says": self.own_id() == self.server_id()}

    def own_id(self):
        return self.raw.thread_id()

    def server_id(self):
        cursor = self.cursor()
        cursor.execute("SELECT CONNECTION_ID()")
        ((number,),) = cursor.fetchall()
        cursor.close()
        return number


class Prepared:
    """A statement that a driver without prepared ones sends anew each time."""

    def __init__(self, session, sql):
        self.session, self.sql = session, sql

    def execute(self, params):
        return self.session.run(self.sql, params)

    def close(self):
        self.session = None


class PyMySql(Session):
    def __init__(self):
        import pymysql.cursors

        self.unbuffered = {"cursor": pymysql.cursors.SSCursor}
        tls = {"ssl": unverified()} if TLS else {"ssl_disabled": True}
        super().__init__(
            pymysql.connect(
                charset="utf8mb4", autocommit=True, client_flag=MULTI_STATEMENTS, **TARGET, **tls
            )
        )

    def cursor(self, **kwargs):
        return self.raw.cursor(kwargs.get("cursor"))

    def ping(self):
        self.raw.ping(reconnect=False)
        return "alive"


class MySqlClient(Session):
    def __init__(self):
        import MySQLdb.cursors

        self.unbuffered = {"cursorclass": MySQLdb.cursors.SSCursor}
        mode = "REQUIRED" if TLS else "DISABLED"
        raw = MySQLdb.connect(charset="utf8mb4", autocommit=True, ssl_mode=mode, **TARGET)
        super().__init__(raw)

    def change_user(self):
        self.raw.change_user(TARGET["user"], TARGET["password"], TARGET["database"])
        return "changed"

    def begin(self):
        return self.run("BEGIN")


class Connector(Session):
    """MySQL Connector/Python: pure or with its C extension, with or without prepared statements."""

    def __init__(self, pure=True, prepared=False, raw=None):
        import mysql.connector

        self.prepared_cursors = prepared
        super().__init__(raw or mysql.connector.connect(**Connector.arguments(pure)))

    @staticmethod
    def arguments(pure):
        return {
            **TARGET,
            "charset": "utf8mb4",
            "autocommit": True,
            "use_pure": pure,
            "ssl_disabled": not TLS,
            "get_warnings": True,
            "consume_results": True,
            "allow_local_infile": False,
        }

    def run(self, sql, params=None):
        if params is None or not self.prepared_cursors:
            return super().run(sql, params)
        cursor = self.raw.cursor(prepared=True)
        try:
            cursor.execute(sql, tuple(params))
            return self.outcome(cursor)
        finally:
            cursor.close()

    def batch(self, sql, rows):
        if not self.prepared_cursors:
            return super().batch(sql, rows)
        cursor = self.raw.cursor(prepared=True)
        try:
            cursor.executemany(sql, rows)
            return {"affected": cursor.rowcount, "id": cursor.lastrowid}
        finally:
            cursor.close()

    def call(self, procedure, params):
        cursor = self.cursor()
        out = cursor.callproc(procedure, tuple(params))
        sets = [self.outcome(result) for result in cursor.stored_results()]
        cursor.close()
        return {"sets": sets, "out": [show(value) for value in out]}

    def warnings(self, sql):
        cursor = self.cursor()
        cursor.execute(sql)
        cursor.fetchall()
        found = [[show(value) for value in row] for row in cursor.warnings or ()]
        cursor.close()
        return found

    def prepare(self, sql):
        return ConnectorPrepared(self, sql) if self.prepared_cursors else Prepared(self, sql)

    def ping(self):
        self.raw.ping(reconnect=False)
        return "alive"

    def begin(self):
        self.raw.start_transaction()
        return "begun"

    def autocommit(self, on):
        self.raw.autocommit = on
        return self.raw.autocommit

    def schema(self, name):
        self.raw.cmd_init_db(name)
        return name

    def reset(self):
        self.raw.cmd_reset_connection()
        return "reset"

    def change_user(self):
        self.raw.cmd_change_user(TARGET["user"], TARGET["password"], TARGET["database"])
        return "changed"

    def own_id(self):
        return self.raw.connection_id


class ConnectorPrepared:
    """Stays prepared as long as its cursor gets the same text."""

    def __init__(self, session, sql):
        self.session, self.sql = session, sql
        self.cursor = session.raw.cursor(prepared=True)

    def execute(self, params):
        self.cursor.execute(self.sql, tuple(params))
        return self.session.outcome(self.cursor)

    def close(self):
        self.cursor.close()


class Loop:
    """One event loop in a thread of its own; others wait for what they hand it."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class Waiting:
    """An object whose coroutines are waited for."""

    def __init__(self, loop, inner):
        self.__dict__.update(loop=loop, inner=inner)

    def __getattr__(self, name):
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        def call(*args, **kwargs):
            result = attribute(*args, **kwargs)
            return self.loop.wait(result) if asyncio.iscoroutine(result) else result

        return call


class AsyncMy(Session):
    loop = None

    def __init__(self, raw=None):
        import asyncmy
        from asyncmy.cursors import SSCursor

        self.unbuffered = {"cursor": SSCursor}
        AsyncMy.loop = AsyncMy.loop or Loop()
        raw = raw or AsyncMy.loop.wait(asyncmy.connect(**AsyncMy.arguments()))
        super().__init__(Waiting(AsyncMy.loop, raw))

    @staticmethod
    def arguments():
        return {
            **TARGET,
            "charset": "utf8mb4",
            "autocommit": True,
            "client_flag": MULTI_STATEMENTS,
            "ssl": unverified() if TLS else None,
        }

    def cursor(self, **kwargs):
        return Waiting(self.loop, self.raw.inner.cursor(**kwargs))

    def ping(self):
        self.raw.ping(reconnect=False)
        return "alive"

    def close(self):
        self.raw.ensure_closed()


class Pool:
    """Connections that are opened when they are needed and then go from hand to hand."""

    def __init__(self, driver, size):
        self.driver = driver
        self.free = queue.LifoQueue()
        for _ in range(size):
            self.free.put(None)

    @contextlib.contextmanager
    def lease(self):
        session = self.free.get()
        try:
            session = session or self.driver.open()
            yield session
        finally:
            self.free.put(session)

    def close(self):
        while not self.free.empty():
            session = self.free.get()
            if session is not None:
                session.close()


class AlchemyPool:
    """SQLAlchemy's pool of the driver's connections: rolls back what comes home."""

    def __init__(self, driver, size):
        from sqlalchemy.pool import QueuePool

        self.sessions = {}
        self.driver = driver
        self.pool = QueuePool(self.create, pool_size=size, max_overflow=0, timeout=60)

    def create(self):
        session = self.driver.open()
        self.sessions[id(session.raw)] = session
        return session.raw

    @contextlib.contextmanager
    def lease(self):
        lent = self.pool.connect()
        try:
            yield self.sessions[id(lent.dbapi_connection)]
        finally:
            lent.close()

    def close(self):
        self.pool.dispose()


class ConnectorPool:
    """Connector/Python's own pool: resets the session of what comes home."""

    def __init__(self, driver, size):
        from mysql.connector.pooling import MySQLConnectionPool

        self.driver = driver
        self.places = threading.Semaphore(size)
        arguments = Connector.arguments(driver.arguments["pure"])
        self.pool = MySQLConnectionPool(pool_size=size, pool_reset_session=True, **arguments)

    @contextlib.contextmanager
    def lease(self):
        with self.places:
            raw = self.pool.get_connection()
            try:
                yield Connector(raw=raw, **self.driver.arguments)
            finally:
                raw.close()

    def close(self):
        self.pool._remove_connections()


class AsyncPool:
    """asyncmy's own pool."""

    def __init__(self, driver, size):
        import asyncmy

        AsyncMy.loop = AsyncMy.loop or Loop()
        create = asyncmy.create_pool(minsize=1, maxsize=size, **AsyncMy.arguments())
        self.pool = AsyncMy.loop.wait(ready(create))

    @contextlib.contextmanager
    def lease(self):
        raw = AsyncMy.loop.wait(ready(self.pool.acquire()))
        try:
            yield AsyncMy(raw)
        finally:
            AsyncMy.loop.wait(ready(self.pool.release(raw)))

    def close(self):
        self.pool.close()
        AsyncMy.loop.wait(self.pool.wait_closed())


async def ready(awaitable):
    return await awaitable


class Driver:
    """How sessions of a driver are opened, one by one and in a pool."""

    def __init__(self, session, pool=Pool, **arguments):
        self.session, self.pool_kind, self.arguments = session, pool, arguments

    def open(self):
        return self.session(**self.arguments)

    def pool(self, size):
        return self.pool_kind(self, size)


def driver(name):
    return {
        "pymysql": Driver(PyMySql, AlchemyPool),
        "mysqlclient": Driver(MySqlClient, AlchemyPool),
        "connector": Driver(Connector, ConnectorPool, pure=True),
        "connector-c": Driver(Connector, ConnectorPool, pure=False),
        "connector-prepared": Driver(Connector, ConnectorPool, pure=True, prepared=True),
        "connector-c-prepared": Driver(Connector, ConnectorPool, pure=False, prepared=True),
        "asyncmy": Driver(AsyncMy, AsyncPool),
    }[name]
