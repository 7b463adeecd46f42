// The same commands over the control connection, where one WebSocket carries one command after the other.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

import { eventually, operation } from '../harness.mjs';

/** The Sprite again, by a client in control mode. */
function handle(t, box) {
  t.controlled ??= t.connect({ controlMode: true });
  t.handles ??= new Map();
  if (!t.handles.has(box.name)) t.handles.set(box.name, t.controlled.sprite(box.name));
  const sprite = t.handles.get(box.name);
  assert(sprite.useControlMode() && !box.useControlMode());
  return sprite;
}

/** One operation on a control connection; its output is collected. */
async function start(connection, cmd, options = {}) {
  const op = await connection.startOp('exec', { cmd, stdin: true, ...options });
  const output = { stdout: [], stderr: [] };
  for (const stream of ['stdout', 'stderr']) op.on(stream, chunk => output[stream].push(chunk));
  const bytes = (stream = 'stdout') => Buffer.concat(output[stream]);
  const until = wanted => eventually(() => bytes().includes(wanted), `${wanted} in the output`);
  return { op, bytes, until };
}

/** A control connection out of the pool; the SDK has no public way to give it back. */
async function connect(t, tag = 'controlled') {
  const sprite = handle(t, await t.box(tag));
  const connection = await sprite.getControlConnection();
  assert(connection instanceof t.sdk.ControlConnection && connection.isActive() && !connection.isClosed());
  return { sprite, connection };
}

operation('control: output and exit codes', async t => {
  const box = await t.box();
  const sprite = handle(t, box);
  assert.equal(sprite.hasControlConnection(), false);
  const every = Buffer.from(Array.from({ length: 256 * 5 }, (_, n) => n % 256));
  const script = 'import sys; b = bytes(range(256)) * 5; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])';
  const done = await sprite.execFile('python3', ['-c', script], { encoding: 'buffer' });
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, every, Buffer.from(every).reverse()]);
  const elsewhere = await sprite.execFile('sh', ['-c', 'pwd; echo $A'], { cwd: '/tmp', env: { A: 'b c' } });
  assert.equal(elsewhere.stdout, '/tmp\nb c\n');
  assert.equal(sprite.hasControlConnection(), true);
  const connection = await sprite.getControlConnection();
  for (const [script, code] of [
    ['exit 0', 0],
    ['exit 1', 1],
    ['exit 255', 255],
    ['kill -TERM $$', 143],
  ]) {
    const { op } = await start(connection, ['sh', '-c', script]);
    assert.equal(op.getExitCode(), -1);
    op.sendEOF();
    assert.deepEqual([await op.wait(), op.getExitCode(), op.isClosed()], [code, code, true]);
  }
  const { op } = await start(connection, ['no-such-program']);
  assert.equal(await op.wait(), 127);
  sprite.closeControlConnection();
  assert.equal(sprite.hasControlConnection(), false);
});

operation('control: stdin and 1 MB each way', async t => {
  const { sprite, connection } = await connect(t, 'box');
  const data = randomBytes((1 << 20) + 17);
  const { op, bytes } = await start(connection, ['cat']);
  for (let begin = 0; begin < data.length; begin += 65_536) op.write(data.subarray(begin, begin + 65_536));
  op.sendEOF();
  assert.equal(await op.wait(), 0);
  assert(bytes().equals(data));
  // The stdin of one command does not reach the next.
  const head = await start(connection, ['head', '-c', '3']);
  head.op.write(Buffer.from('abcdef'));
  head.op.sendEOF();
  assert.deepEqual([await head.op.wait(), head.bytes().toString()], [0, 'abc']);
  const cat = await start(connection, ['cat']);
  cat.op.write(Buffer.from('fresh'));
  cat.op.sendEOF();
  assert.deepEqual([await cat.op.wait(), cat.bytes().toString()], [0, 'fresh']);
  sprite.closeControlConnection();
});

operation('control: 200 short commands on one connection', async t => {
  const box = await t.box('controlled');
  const sprite = handle(t, box);
  for (let number = 0; number < 200; number += 1) {
    assert.deepEqual(await sprite.execFile('echo', [String(number)]), {
      stdout: `${number}\n`,
      stderr: '',
      exitCode: 0,
    });
  }
  // All on one: it is the one that the pool gives out, and it is fresh for the next.
  const connection = await sprite.getControlConnection();
  const { op, bytes } = await start(connection, ['echo', 'last']);
  assert.deepEqual([await op.wait(), bytes().toString()], [0, 'last\n']);
  sprite.closeControlConnection();
});

operation('control: terminal and resize', async t => {
  const { sprite, connection } = await connect(t);
  const script =
    "trap 'stty size; exit 4' WINCH; stty -echo; echo ready; read a; echo got $a; while :; do sleep 0.05; done";
  const { op, bytes, until } = await start(connection, ['sh', '-c', script], { tty: true, rows: 20, cols: 60 });
  await until('ready');
  op.write(Buffer.from('line\n'));
  await until('got line');
  op.sendEOF();
  op.resize(101, 41);
  assert.equal(await op.wait(), 4);
  assert.equal(bytes().toString(), 'ready\r\ngot line\r\n41 101\r\n');
  sprite.closeControlConnection();
});

operation('control: signal', async t => {
  const { sprite, connection } = await connect(t);
  for (const [name, code] of [
    ['TERM', 143],
    ['SIGINT', 130],
    ['KILL', 137],
  ]) {
    const { op, until } = await start(connection, ['sh', '-c', 'echo ready; exec sleep 60']);
    const infos = [];
    op.on('message', message => infos.push(message.type));
    await until('ready');
    op.signal(name);
    assert.equal(await op.wait(), code, name);
  }
  sprite.closeControlConnection();
});

operation('control: an unknown operation', async t => {
  const { sprite, connection } = await connect(t);
  const op = await connection.startOp('dance');
  const refusal = new Promise(resolve => op.once('error', resolve));
  assert.equal(await op.wait(), -1);
  assert((await refusal).message);
  const { op: next, bytes } = await start(connection, ['echo', 'usable']);
  next.sendEOF();
  assert.deepEqual([await next.wait(), bytes().toString()], [0, 'usable\n']);
  const { op: last } = await start(connection, ['sleep', '60']);
  last.close();
  assert(last.isClosed());
  connection.close();
  assert(connection.isClosed());
  connection.clearOpConn();
  connection.setActive(false);
  sprite.closeControlConnection();
});

operation('control: a failing command runs once', async t => {
  const box = await t.box('once');
  const sprite = handle(t, box);
  const done = await t.sh(sprite, 'echo ran >> ~/runs; exit 3');
  assert.equal(done.exitCode, 3);
  sprite.closeControlConnection();
  assert.equal((await box.exec('cat runs')).stdout, 'ran\nran\n');
  return 'In control mode a command that fails is run a second time, on a connection of its own.';
});
