// Commands without a terminal, each on a WebSocket of its own.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { inspect, isDeepStrictEqual } from 'node:util';

import { Running, absent, operation, rejected } from '../harness.mjs';

const MEGABYTE = 1 << 20;
const every = Buffer.from(Array.from({ length: 256 * 5 }, (_, n) => n % 256));

operation('exec: bytes of stdout and stderr, exact', async t => {
  const box = await t.box();
  const script = 'import sys; b = bytes(range(256)) * 5; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])';
  const done = await box.execFile('python3', ['-c', script], { encoding: 'buffer' });
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, every, Buffer.from(every).reverse()]);
  assert.deepEqual(await box.execFile('true'), { stdout: '', stderr: '', exitCode: 0 });
});

operation('exec: exit codes 0, 1, 126, 127, 128+n, 255', async t => {
  const box = await t.box();
  for (const code of [0, 1, 2, 125, 255]) {
    const done = await t.sh(box, `echo out; echo err >&2; exit ${code}`);
    assert.deepEqual(done, { stdout: 'out\n', stderr: 'err\n', exitCode: code });
  }
  for (const [name, number] of [
    ['TERM', 15],
    ['KILL', 9],
    ['INT', 2],
    ['SEGV', 11],
  ]) {
    assert.equal((await t.sh(box, `kill -${name} $$`)).exitCode, 128 + number, name);
  }
  const missing = await t.run(box, 'no-such-program');
  assert.deepEqual([missing.exitCode, missing.stdout], [127, '']);
  assert.match(missing.stderr, /no-such-program/);
  assert.equal((await t.run(box, '/etc/passwd')).exitCode, 126);
  const nowhere = await t.run(box, 'true', [], { cwd: '/no/such/folder' });
  assert(nowhere.exitCode !== 0 && nowhere.stderr);
});

operation('exec: arguments arrive as sent', async t => {
  const sent = [
    '',
    ' ',
    'two words',
    '$HOME',
    '`id`',
    'a\nb\tc',
    'ünïcödé 🦀',
    '\'"\\',
    '*',
    '-n',
    'a=b&c=d#e?f%20+g',
    'x'.repeat(5000),
  ];
  const script = 'import json, sys; print(json.dumps(sys.argv[1:]))';
  const done = await (await t.box()).execFile('python3', ['-c', script, ...sent]);
  assert.deepEqual(JSON.parse(done.stdout), sent);
});

operation('exec: environment and working directory', async t => {
  const box = await t.box();
  const env = { GREETING: 'hello wörld = & %41', EMPTY: '', LINES_: 'a\nb' };
  const script =
    "import json, os; print(json.dumps([os.environ.get(k) for k in ('GREETING', 'EMPTY', 'LINES_', 'HOME', 'USER')]))";
  const done = await box.execFile('python3', ['-c', script], { env });
  assert.deepEqual(JSON.parse(done.stdout), [...Object.values(env), '/home/sprite', 'sprite']);
  assert.equal((await box.execFile('pwd')).stdout, '/home/sprite\n');
  assert.equal((await box.execFile('pwd', [], { cwd: '/tmp', env: { A: 'b' } })).stdout, '/tmp\n');
});

operation('exec: every way to run a command', async t => {
  const box = await t.box();
  const script = 'echo out; echo err >&2; exit $0';
  assert.deepEqual(await box.execFile('sh', ['-c', script, '0']), { stdout: 'out\n', stderr: 'err\n', exitCode: 0 });
  const error = await rejected(box.execFile('sh', ['-c', script, '3']));
  assert(error instanceof t.sdk.ExecError);
  assert.deepEqual(
    [error.exitCode, error.stdout, error.stderr, error.message],
    [3, 'out\n', 'err\n', 'Command failed with exit code 3'],
  );
  // exec splits at spaces; quotes mean nothing to it.
  assert.equal((await box.exec('  echo  "a   b" ')).stdout, '"a b"\n');
  assert.match((await rejected(box.execFile('yes', [], { maxBuffer: 1000 }))).message, /stdout maxBuffer exceeded/);
  assert.match(
    (await rejected(box.execFile('sh', ['-c', 'yes >&2'], { maxBuffer: 1000 }))).message,
    /stderr maxBuffer exceeded/,
  );
  assert.equal((await box.execFile('printf', ['\\303\\274'], { encoding: 'hex' })).stdout, 'c3bc');
  const running = t.spawn(box, 'echo out; echo err >&2; exit 7');
  const exited = new Promise(resolve => running.command.once('exit', resolve));
  assert.equal(running.command.exitCode(), -1);
  await running.spawned;
  assert.equal(await running.exit, 7);
  assert.deepEqual(
    [running.text(), running.text('stderr'), await exited, running.command.exitCode()],
    ['out\n', 'err\n', 7, 7],
  );
  assert.match((await rejected(running.command.start())).message, /already started/);
});

operation('exec: stdin and its end', async t => {
  const box = await t.box();
  const fed = async (script, ...chunks) => {
    const running = t.spawn(box, script);
    await running.spawned;
    for (const chunk of chunks) running.command.stdin.write(chunk);
    running.command.stdin.end();
    assert.equal(await running.exit, 0);
    return running.bytes();
  };
  assert.deepEqual(await fed('cat', every, every), Buffer.concat([every, every]));
  assert.deepEqual(await fed('cat'), Buffer.alloc(0));
  assert.deepEqual(await fed('head -c 3', every), every.subarray(0, 3));
  assert.equal((await fed('echo done', every)).toString(), 'done\n');
  assert.equal((await t.sh(box, 'timeout 0.5 cat')).exitCode, 124);
  return '`execFile` and `exec` never end stdin: what reads it to its end, as `cat` does, waits for ever.';
});

operation('exec: 1 MB each way', async t => {
  const box = await t.box();
  const data = randomBytes(MEGABYTE + 17);
  const running = new Running(box.spawn('cat'));
  await running.spawned;
  for (let start = 0; start < data.length; start += 65_536)
    running.command.stdin.write(data.subarray(start, start + 65_536));
  running.command.stdin.end();
  assert.equal(await running.exit, 0);
  assert(running.bytes().equals(data));
  const script =
    'import sys; b = bytes(range(251)) * 4200; sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[:1000000])';
  const wanted = Buffer.from(Array.from({ length: 251 * 4200 }, (_, n) => n % 251));
  const done = await box.execFile('python3', ['-c', script], { encoding: 'buffer' });
  assert(done.stdout.equals(wanted) && done.stderr.equals(wanted.subarray(0, 1_000_000)));
});

operation('exec: 200 short commands in a row', async t => {
  const box = await t.box();
  for (let number = 0; number < 200; number += 1) {
    assert.deepEqual(await box.execFile('echo', [String(number)]), { stdout: `${number}\n`, stderr: '', exitCode: 0 });
  }
});

// The SDK gives a connection up on which no message came for 45 seconds.
operation(
  'exec: silent for 50 seconds',
  async t => {
    const done = await t.sh(await t.box('silent'), 'sleep 50; echo woke; exit 3');
    assert.deepEqual(done, { stdout: 'woke\n', stderr: '', exitCode: 3 });
  },
  { beside: true },
);

operation('exec: time limit of the client', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'execFileHTTP']);
  const box = await t.box();
  assert.equal((await rejected(box.execFileHTTP('sleep', ['30'], { timeout: 300 }))).name, 'TimeoutError');
  const control = new AbortController();
  const running = rejected(box.execFileHTTP('sleep', ['30'], { signal: control.signal, timeout: 30_000 }));
  control.abort();
  assert.equal((await running).name, 'AbortError');
  assert.equal((await rejected(box.execFileHTTP('true', [], { timeout: -1 }))).name, 'TypeError');
  return 'Only `execFileHTTP` has a time limit.';
});

operation('exec: signal', async t => {
  const box = await t.box();
  for (const [send, code] of [
    [command => command.kill(), 143],
    [command => command.kill('SIGINT'), 130],
    [command => command.signal('HUP'), 129],
    [command => command.signal('SIGKILL'), 137],
  ]) {
    const running = t.spawn(box, 'echo ready; exec sleep 60');
    await running.until('ready');
    send(running.command);
    assert.equal(await running.exit, code);
  }
  const running = t.spawn(box, "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.05; done");
  await running.until('ready');
  running.command.signal('USR1');
  assert.deepEqual([await running.exit, running.text()], [5, 'ready\nheard\n']);
});

operation('exec: messages beside the output', async t => {
  const box = await t.box();
  const terminal = t.spawn(box, 'echo $$', { tty: true });
  await terminal.exit;
  const [info] = terminal.messages.filter(message => message.type === 'session_info');
  assert.match(info.session_id, /^[0-9]+$/);
  assert.deepEqual([info.tty, typeof info.command, typeof info.created], [true, 'string', 'number']);
  const plain = t.spawn(box, 'echo $$');
  await plain.exit;
  assert.deepEqual(plain.messages, []);
  return 'Messages of a command without a terminal (`session_info`) are dropped.';
});

/** The chunks of an answer of HTTP exec, as they are on the wire. */
async function chunks(t, sprite, script) {
  const query = new URLSearchParams([
    ['cmd', 'sh'],
    ['cmd', '-c'],
    ['cmd', script],
  ]);
  const { hostname, port } = new URL(t.url);
  const path = `/v1/sprites/${sprite.name}/exec?${query}`;
  const socket = connect(port, hostname);
  const headers = [`Host: ${hostname}`, `Authorization: Bearer ${t.token}`, 'Connection: close', 'Content-Length: 0'];
  socket.write([`POST ${path} HTTP/1.1`, ...headers, '', ''].join('\r\n'));
  const answer = Buffer.concat(await Array.fromAsync(socket)).toString('latin1');
  let body = answer.slice(answer.indexOf('\r\n\r\n') + 4);
  const found = [];
  while (body) {
    const line = body.indexOf('\r\n');
    const length = parseInt(body.slice(0, line), 16);
    found.push(body.slice(line + 2, line + 2 + length));
    body = body.slice(line + 4 + length);
  }
  return found;
}

operation('exec over HTTP', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'execFileHTTP']);
  const box = await t.box();
  assert.deepEqual(await chunks(t, box, 'echo out; sleep 0.1; echo err >&2; exit 3'), [
    '\x01out\n',
    '\x02err\n',
    '\x03\x03',
    '',
  ]);
  // Frames have no length: two that come at the same time reach the SDK as one. So this is asked until they came apart.
  const apart = async (file, args, options, wanted) => {
    for (let tries = 1; ; tries += 1) {
      const got = await box.execFileHTTP(file, args, options).catch(error => error.result ?? error);
      if (isDeepStrictEqual(got, wanted)) return;
      assert(tries < 50, inspect(got));
    }
  };
  const raw = `import sys, time; b = bytes(range(256)) * 5; sys.stdout.buffer.write(b); sys.stdout.flush()
time.sleep(0.1); sys.stderr.buffer.write(b[::-1])`;
  const reversed = Buffer.from(every).reverse();
  await apart('python3', ['-c', raw], { encoding: 'buffer' }, { stdout: every, stderr: reversed, exitCode: 0 });
  await apart('cat', [], { input: 'fed' }, { stdout: 'fed', stderr: '', exitCode: 0 });
  await apart('cat', [], { input: every, encoding: 'buffer' }, { stdout: every, stderr: Buffer.alloc(0), exitCode: 0 });
  for (const [script, exitCode] of [
    ['exit 1', 1],
    ['exit 255', 255],
    ['kill -TERM $$', 143],
  ]) {
    await apart('sh', ['-c', `echo out; ${script}`], {}, { stdout: 'out\n', stderr: '', exitCode });
  }
  await apart('pwd', [], { cwd: '/tmp', env: { A: 'b' } }, { stdout: '/tmp\n', stderr: '', exitCode: 0 });
  assert.equal((await rejected(box.execFileHTTP('yes', [], { maxBuffer: 1000 }))).message, 'stdout maxBuffer exceeded');
  const error = await rejected(t.client.sprite(t.name('ghost')).execFileHTTP('true'));
  assert.deepEqual([error.name, error.statusCode], ['APIError', 404]);
  return 'Frames of `execFileHTTP` that come at the same time are taken for one, whose payload then has the others in it.';
});
