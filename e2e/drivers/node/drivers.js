// The drivers, each behind the same few methods, in its own idiom.

'use strict';

const { show, summary } = require('./values.js');

const tls = process.env.DRIVER_TLS === 'on';
const target = {
  host: process.env.DRIVER_HOST,
  port: Number(process.env.DRIVER_PORT),
  user: process.env.DRIVER_USER,
  password: process.env.DRIVER_PASSWORD,
  database: process.env.DRIVER_SCHEMA,
  multipleStatements: true,
};

function named(name) {
  switch (name) {
    case 'mysql2':
      return new MySql2Driver('query');
    case 'mysql2-execute':
      return new MySql2Driver('execute');
    case 'mariadb':
      return new MariaDbDriver('query');
    case 'mariadb-execute':
      return new MariaDbDriver('execute');
    default:
      throw new Error(`unknown driver ${name}`);
  }
}

// What both have in common: rows come as arrays.
class Session {
  constructor(raw, verb) {
    this.raw = raw;
    this.verb = verb;
  }

  ping() {
    return this.raw.ping().then(() => 'alive');
  }

  begin() {
    return this.raw.beginTransaction().then(() => 'begun');
  }

  commit() {
    return this.raw.commit().then(() => 'committed');
  }

  rollback() {
    return this.raw.rollback().then(() => 'rolled back');
  }

  change_user() {
    const { user, password, database } = target;
    return this.raw.changeUser({ user, password, database }).then(() => 'changed');
  }

  async connection_id() {
    const [[id]] = (await this.run('SELECT CONNECTION_ID()')).rows;
    return { 'as the server says': id === show(this.ownId()) || id === show(BigInt(this.ownId())) };
  }
}

function head(result) {
  if (result === undefined) return 'nothing';
  const { affectedRows, insertId, warningStatus, info } = result;
  return { affected: affectedRows, id: show(insertId), warnings: warningStatus, info };
}

function table(fields, rows, nameOf) {
  const columns = fields.map((field) => [nameOf(field), field.columnType ?? field.type, field.flags]);
  return { columns, rows: rows.map((row) => Object.values(row).map(show)) };
}

class MySql2 extends Session {
  ownId() {
    return this.raw.threadId;
  }

  async run(sql, params) {
    const verb = params && this.verb === 'execute' ? 'execute' : 'query';
    const [rows, fields] = await this.raw[verb]({ sql, values: params, rowsAsArray: true });
    return MySql2.shown(rows, fields);
  }

  static shown(rows, fields) {
    if (!fields) return head(rows);
    if (Array.isArray(fields[0]) || fields.some((field) => field === undefined)) {
      return rows.map((set, index) => MySql2.shown(set, fields[index]));
    }
    return table(fields, rows, (field) => field.name);
  }

  // One INSERT of all rows is this driver's idiom; other statements go one by one.
  async batch(sql, rows) {
    const [start, values] = sql.split(/VALUES/i);
    if (this.verb === 'query' && values) {
      const [result] = await this.raw.query(`${start} VALUES ?`, [rows]);
      return head(result);
    }
    let affected = 0;
    for (const row of rows) {
      affected += (await this.run(sql, row)).affected;
    }
    return affected;
  }

  async stream(sql, take) {
    const seen = [];
    const rows = this.raw.connection.query({ sql, rowsAsArray: true }).stream();
    for await (const row of rows) {
      seen.push(row.map(show).join());
      // It can't be given up: the rest is read and thrown away.
      if (seen.length === take) break;
    }
    return { rows: seen.length, content: summary(Buffer.from(seen.join('\n'))) };
  }

  multi(sql) {
    return this.run(sql);
  }

  async prepare(sql) {
    if (this.verb !== 'execute') {
      return { execute: (params) => this.run(sql, params), close: () => {} };
    }
    const prepared = await this.raw.prepare({ sql, rowsAsArray: true });
    return {
      execute: async (params) => MySql2.shown(...(await prepared.execute(params))),
      close: () => prepared.close(),
    };
  }

  async schema(name) {
    return this.run(`USE \`${name}\``);
  }

  reset() {
    return this.raw.reset().then(() => 'reset');
  }

  close() {
    return this.raw.end().then(() => 'closed');
  }
}

class MySql2Driver {
  constructor(verb) {
    this.verb = verb;
    this.mysql = require('mysql2/promise');
    this.options = { ...target, charset: 'utf8mb4', supportBigNumbers: true, dateStrings: false };
    if (tls) this.options.ssl = { rejectUnauthorized: false };
  }

  async open() {
    return new MySql2(await this.mysql.createConnection(this.options), this.verb);
  }

  pool(size) {
    const pool = this.mysql.createPool({ ...this.options, connectionLimit: size });
    return {
      lease: async () => new MySql2(await pool.getConnection(), this.verb),
      giveBack: (session) => session.raw.release(),
      close: () => pool.end(),
    };
  }
}

class MariaDb extends Session {
  ownId() {
    return this.raw.threadId;
  }

  async run(sql, params) {
    const verb = params && this.verb === 'execute' ? 'execute' : 'query';
    return MariaDb.shown(await this.raw[verb]({ sql, rowsAsArray: true, metaAsArray: true }, params));
  }

  static shown(result) {
    if (!Array.isArray(result)) return head(result);
    const [rows, meta] = result;
    if (!Array.isArray(rows)) return head(rows);
    // Several results: their metadata stand beside them in the same order.
    const isMany = Array.isArray(meta?.[0]) || meta?.some?.((one) => one === undefined);
    if (isMany) {
      return rows.map((set, index) => (meta[index] ? MariaDb.shown([set, meta[index]]) : head(set)));
    }
    return table(meta ?? [], rows, (field) => field.name());
  }

  async batch(sql, rows) {
    const result = await this.raw.batch(sql, rows);
    return Array.isArray(result) ? result.map(head) : head(result);
  }

  async stream(sql, take) {
    const seen = [];
    const rows = this.raw.queryStream({ sql, rowsAsArray: true });
    try {
      for await (const row of rows) {
        seen.push(row.map(show).join());
        if (seen.length === take) break;
      }
    } finally {
      rows.close();
    }
    return { rows: seen.length, content: summary(Buffer.from(seen.join('\n'))) };
  }

  multi(sql) {
    return this.run(sql);
  }

  async prepare(sql) {
    if (this.verb !== 'execute') {
      return { execute: (params) => this.run(sql, params), close: () => {} };
    }
    const prepared = await this.raw.prepare({ sql, rowsAsArray: true, metaAsArray: true });
    return {
      execute: async (params) => MariaDb.shown(await prepared.execute(params)),
      close: () => prepared.close(),
    };
  }

  async schema(name) {
    return this.run(`USE \`${name}\``);
  }

  reset() {
    return this.raw.reset().then(() => 'reset');
  }

  close() {
    return this.raw.end().then(() => 'closed');
  }
}

class MariaDbDriver {
  constructor(verb) {
    this.verb = verb;
    this.mariadb = require('mariadb');
    this.options = { ...target, charset: 'utf8mb4', allowPublicKeyRetrieval: true, ssl: tls && { rejectUnauthorized: false } };
    this.options.checkDuplicate = false;
  }

  async open() {
    return new MariaDb(await this.mariadb.createConnection(this.options), this.verb);
  }

  pool(size) {
    const pool = this.mariadb.createPool({ ...this.options, connectionLimit: size });
    return {
      lease: async () => new MariaDb(await pool.getConnection(), this.verb),
      giveBack: (session) => session.raw.release(),
      close: () => pool.end(),
    };
  }
}

module.exports = { named };
