"""Carries out the scenario with one Python driver and prints a JSON line for each step.

    program.py DRIVER SCENARIO

What to connect to stands in the environment: see README.md of the folder above.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import ordinary
import orm
import sessions
from values import filled, parameters, show_error

SCHEMA = os.environ["DRIVER_SCHEMA"]


def emit(name, result):
    print(json.dumps({"step": name, "result": result}, ensure_ascii=False), flush=True)


def attempt(name, action):
    try:
        emit(name, action())
    except Exception as error:  # noqa: BLE001: whatever the driver raises is the result
        emit(name, show_error(error))


class Program:
    """The connections and prepared statements of a run, by their names in the scenario."""

    def __init__(self, driver):
        self.driver = driver
        self.conns = {}
        self.stmts = {}

    def step(self, step, session=None, task=None):
        """Carries out one step; the result that is printed."""
        op = step["op"]
        sql = filled(step.get("sql", ""), SCHEMA, task)
        params = parameters(step["params"], task) if "params" in step else None
        if op == "open":
            self.conns[step["conn"]] = self.driver.open()
            return "open"
        if op == "close":
            self.conns.pop(step["conn"]).close()
            return "closed"
        if op == "pool":
            return self.pool(step)
        session = session or self.conns[step["conn"]]
        if op in ("query", "exec"):
            result = session.run(sql, params)
            return result if not step.get("hide_id") else {**result, "id": "hidden"}
        if op == "batch":
            return session.batch(sql, batch_rows(step))
        if op == "stream":
            return session.stream(sql, step.get("take"))
        if op == "multi":
            return session.multi(sql)
        if op == "call":
            return session.call(step["procedure"], params)
        if op == "warnings":
            return session.warnings(sql)
        if op == "prepare":
            self.stmts[step["stmt"]] = session.prepare(sql)
            return "prepared"
        if op == "execute":
            return self.stmts[step["stmt"]].execute(params)
        if op == "close_stmt":
            self.stmts.pop(step["stmt"]).close()
            return "closed"
        if op == "autocommit":
            return session.autocommit(step["on"])
        if op == "isolation":
            return session.isolation(step["level"])
        if op == "schema":
            return session.schema(step["to"])
        # What a driver does not have is no method of its sessions.
        return getattr(session, op, lambda: "unsupported")()

    def pool(self, step):
        """Every task checks a connection out, carries out its steps, and gives it back."""
        pool = self.driver.pool(step["size"])

        def run(task):
            lines = []
            with pool.lease() as session:
                for inner in step["steps"]:
                    try:
                        lines.append([inner["name"], self.step(inner, session, task)])
                    except Exception as error:  # noqa: BLE001
                        lines.append([inner["name"], show_error(error)])
            return lines

        with ThreadPoolExecutor(step["tasks"]) as threads:
            results = list(threads.map(run, range(1, step["tasks"] + 1)))
        pool.close()
        return results


def batch_rows(step):
    if "count" in step:
        return [(f"row {number}", number) for number in range(step["count"])]
    return [tuple(parameters(row)) for row in step["rows"]]


def main():
    driver, scenario = sys.argv[1:3]
    if driver.startswith("ordinary-"):
        ordinary.run(driver, int(scenario))
        return
    if driver.startswith("sqlalchemy"):
        orm.run(driver, attempt)
        return
    with open(scenario, encoding="utf-8") as file:
        steps = json.load(file)
    program = Program(sessions.driver(driver))
    for step in steps:
        attempt(step["name"], lambda step=step: program.step(step))


main()
