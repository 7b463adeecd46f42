// How a case is written, run and told.
//
// A case is an async function registered for one operation of ../operations.txt. It returns nothing when the SDK did
// what the wire protocol says, a sentence when the SDK itself deviates (and the case has asserted just that), or what
// `absent` and `notRun` return. Anything thrown is a failure. Both versions of the SDK run the same cases; `t.old` is
// the older one.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

export const cases = new Map();
const aside = new Set();

/** Registers a case. One that is `beside` runs beside all others from the start. */
export function operation(name, run, { beside = false } = {}) {
  assert(!cases.has(name), `two cases for ${name}`);
  cases.set(name, run);
  if (beside) aside.add(name);
}

/** Says that the SDK has no such operation, and sees that it is so. */
export function absent(...members) {
  for (const [owner, member] of members) {
    const named = typeof owner === 'function' ? owner : owner.constructor;
    assert(!(member in owner), `${named.name}.${member} is there: write its case`);
  }
  return { absent: members.map(([, member]) => member).join(', ') };
}

export function notRun(reason) {
  return { notRun: reason };
}

/** Polls until `condition` gives something true. */
export async function eventually(condition, what, seconds = 30) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert(Date.now() < deadline, `not within ${seconds} s: ${what}`);
    await sleep(20);
  }
}

/** What the promise is rejected with; it must be. */
export async function rejected(promise) {
  const result = await promise.then(
    value => ({ value }),
    error => ({ error }),
  );
  assert('error' in result, `not rejected: ${JSON.stringify(result.value)}`);
  return result.error;
}

/** The parts of an error that are its type: they are compared with what the platform answered. */
export function typed(error) {
  return { name: error.name, statusCode: error.statusCode, errorCode: error.errorCode };
}

export const json = value => JSON.parse(JSON.stringify(value));

/** A command that runs: its streams are collected, and can be waited for. */
export class Running {
  constructor(command) {
    this.command = command;
    this.messages = [];
    this.chunks = { stdout: [], stderr: [] };
    for (const stream of ['stdout', 'stderr']) command[stream].on('data', chunk => this.chunks[stream].push(chunk));
    command.on('message', message => this.messages.push(message));
    this.spawned = new Promise(resolve => command.once('spawn', resolve));
    this.failed = new Promise(resolve => command.once('error', resolve));
    // One that fails twice is no reason to end the process.
    command.on('error', () => {});
    const ended = Promise.all(
      ['stdout', 'stderr'].map(stream => new Promise(resolve => command[stream].once('end', resolve))),
    );
    this.exit = Promise.all([command.wait(), ended]).then(([code]) => code);
  }

  bytes(stream = 'stdout') {
    return Buffer.concat(this.chunks[stream]);
  }

  text(stream = 'stdout') {
    return this.bytes(stream).toString();
  }

  until(wanted, stream = 'stdout') {
    return eventually(() => this.text(stream).includes(wanted), `${JSON.stringify(wanted)} in the output`);
  }

  /** Leaves the command to itself, as a lost connection does. */
  disconnect() {
    this.command.wsCmd.close();
  }
}

/** What cases get: the SDK, clients of it, a running Sprite. */
export class Suite {
  constructor(sdk, version) {
    this.sdk = sdk;
    this.old = version === '0.0.1-rc37';
    const { SPRITESD_TOKEN, SPRITESD_URL, SPRITESD_RATE_URL, SPRITESD_BUSY_URL, SPRITESD_MANY, SPRITESD_PREFIX } =
      process.env;
    Object.assign(this, {
      token: SPRITESD_TOKEN,
      url: SPRITESD_URL,
      rateURL: SPRITESD_RATE_URL,
      busyURL: SPRITESD_BUSY_URL,
    });
    Object.assign(this, { many: SPRITESD_MANY, prefix: SPRITESD_PREFIX });
    this.client = this.connect();
    this.boxes = new Map();
  }

  connect({ token = this.token, url = this.url, ...options } = {}) {
    return new this.sdk.SpritesClient(token, { baseURL: url, ...options });
  }

  name(tag) {
    return `${this.prefix}-${tag}`;
  }

  /** The Sprite of that tag, made at its first use. */
  box(tag = 'box') {
    if (!this.boxes.has(tag)) this.boxes.set(tag, this.client.createSprite(this.name(tag)));
    return this.boxes.get(tag);
  }

  /** What a command gave, whatever its exit code. */
  async run(sprite, file, args = [], options = {}) {
    try {
      return await sprite.execFile(file, args, options);
    } catch (error) {
      if (error instanceof this.sdk.ExecError) return error.result;
      throw error;
    }
  }

  sh(sprite, script, options = {}) {
    return this.run(sprite, 'sh', ['-c', script], options);
  }

  spawn(sprite, script, options = {}) {
    return new Running(sprite.spawn('sh', ['-c', script], options));
  }
}

/** One JSON object a line is what the runner reads. */
export function tell(operation, result, detail, start) {
  process.stdout.write(`${JSON.stringify({ operation, result, detail, seconds: (Date.now() - start) / 1000 })}\n`);
}

async function runCase(suite, name) {
  const start = Date.now();
  const limit = sleep(100_000, 'late', { ref: false });
  try {
    const result = await Promise.race([cases.get(name)(suite), limit]);
    if (result === 'late') tell(name, 'fail', 'not within 100 s', start);
    else if (result === undefined) tell(name, 'pass', '', start);
    else if (typeof result === 'string') tell(name, 'deviation', result, start);
    else if (result.absent) tell(name, 'absent', result.absent, start);
    else tell(name, 'not run', result.notRun, start);
  } catch (error) {
    tell(name, 'fail', error?.stack ?? String(error), start);
  }
}

/** Runs every case; `last` after all others. */
export async function runAll(suite, last, only) {
  const chosen = [...cases.keys()].filter(name => !only.length || only.some(part => name.includes(part)));
  const beside = chosen.filter(name => aside.has(name)).map(name => runCase(suite, name));
  for (const name of chosen) if (!aside.has(name) && name !== last) await runCase(suite, name);
  await Promise.all(beside);
  if (chosen.includes(last) && !only.length) await runCase(suite, last);
}
