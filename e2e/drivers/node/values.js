// Parameters out of the scenario, and values as text that shows their type.

'use strict';

const crypto = require('node:crypto');

const LONG = 200;

function filled(text, schema, task) {
  const named = text.replaceAll('{schema}', schema);
  if (task === undefined) return named;
  return named.replaceAll('{nn}', String(task).padStart(2, '0')).replaceAll('{n}', String(task));
}

function parameters(given, task) {
  return given.map((value) => parameter(value, task));
}

function parameter(value, task) {
  if (typeof value === 'string') return filled(value, '', task);
  if (value === null || typeof value !== 'object') return value;
  const [[kind, content]] = Object.entries(value);
  switch (kind) {
    case 'long':
      return BigInt(content);
    case 'bytes':
      return Buffer.from(content, 'hex');
    case 'repeat':
      return content[0].repeat(content[1]);
    case 'repeat_bytes':
      return Buffer.from(content[0].repeat(content[1]), 'hex');
    case 'datetime':
      return new Date(content.replace(' ', 'T'));
    case 'task':
      return task;
    default:
      // Decimals, dates and times have no type of their own.
      return content;
  }
}

// A value as text that tells its type; long ones by length and checksum.
function show(value) {
  if (value === null || value === undefined) return String(value);
  if (Buffer.isBuffer(value)) {
    return 'buffer:' + (value.length > LONG ? summary(value) : value.toString('hex'));
  }
  if (value instanceof Date) return `date:${isNaN(value) ? 'invalid' : value.toISOString()}`;
  if (typeof value === 'object') return 'object:' + JSON.stringify(value);
  const text = String(value);
  return `${typeof value}:${text.length > LONG ? summary(Buffer.from(text)) : text}`;
}

function summary(data) {
  return `${data.length} bytes, md5 ${crypto.createHash('md5').update(data).digest('hex')}`;
}

function showError(error) {
  return {
    error: error.errno ?? error.name,
    code: error.code,
    state: error.sqlState,
    message: error.sqlMessage ?? error.message,
  };
}

module.exports = { filled, parameters, show, showError, summary };
