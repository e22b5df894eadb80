// Carries out the scenario with one of Node's drivers and prints a JSON line for each step.
//
//     program.js DRIVER SCENARIO

'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { filled, parameters, showError } = require('./values.js');
const drivers = require('./drivers.js');

const schema = process.env.DRIVER_SCHEMA;

function emit(step, result) {
  process.stdout.write(JSON.stringify({ step, result }) + '\n');
}

class Program {
  constructor(driver) {
    this.driver = driver;
    this.conns = new Map();
    this.stmts = new Map();
  }

  async attempt(step, session, task) {
    try {
      return await this.step(step, session, task);
    } catch (error) {
      return showError(error);
    }
  }

  async step(step, session, task) {
    const sql = filled(step.sql ?? '', schema, task);
    const params = step.params && parameters(step.params, task);
    switch (step.op) {
      case 'open':
        this.conns.set(step.conn, await this.driver.open());
        return 'open';
      case 'pool':
        return this.pool(step);
    }
    session ??= this.conns.get(step.conn);
    switch (step.op) {
      case 'query':
      case 'exec':
        return hidden(await session.run(sql, params), step.hide_id);
      case 'batch':
        return session.batch(sql, batchRows(step));
      case 'stream':
        return session.stream(sql, step.take);
      case 'prepare':
        this.stmts.set(step.stmt, await session.prepare(sql));
        return 'prepared';
      case 'execute':
        return this.stmts.get(step.stmt).execute(params);
      case 'close_stmt':
        await this.stmts.get(step.stmt).close();
        return 'closed';
      case 'autocommit':
        return session.run(`SET autocommit = ${step.on}`);
      case 'isolation':
        return session.run(`SET SESSION TRANSACTION ISOLATION LEVEL ${step.level}`);
      case 'multi':
        return session.multi(sql);
      case 'call':
        return session.run(`CALL ${step.procedure}(${params.map(String).slice(0, -1)}, @called)`);
      case 'schema':
        return session.schema(step.to);
      case 'warnings':
        await session.run(sql);
        return session.run('SHOW WARNINGS');
      default:
        return session[step.op] ? session[step.op]() : 'unsupported';
    }
  }

  // Every task checks a connection out, carries out its steps, and gives it back.
  async pool(step) {
    const pool = this.driver.pool(step.size);
    const run = async (task) => {
      const session = await pool.lease();
      const lines = [];
      for (const inner of step.steps) {
        lines.push([inner.name, await this.attempt(inner, session, task)]);
      }
      await pool.giveBack(session);
      return lines;
    };
    const tasks = Array.from({ length: step.tasks }, (_, index) => run(index + 1));
    const results = await Promise.all(tasks);
    await pool.close();
    return results;
  }
}

function hidden(result, hide) {
  return hide ? { ...result, id: 'hidden' } : result;
}

function batchRows(step) {
  if (step.count) {
    return Array.from({ length: step.count }, (_, number) => [`row ${number}`, number]);
  }
  return step.rows.map((row) => parameters(row));
}

async function main() {
  const [driver, scenario] = process.argv.slice(2);
  const program = new Program(drivers.named(driver));
  const steps = JSON.parse(fs.readFileSync(path.resolve(scenario), 'utf8'));
  for (const step of steps) {
    emit(step.name, await program.attempt(step));
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
