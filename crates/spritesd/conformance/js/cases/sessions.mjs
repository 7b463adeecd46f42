// Sessions: listed, attached to, killed.

import assert from 'node:assert/strict';

import { Running, absent, eventually, operation, rejected } from '../harness.mjs';

/** The one session whose command contains `part`. */
function sessionOf(sprite, part) {
  return eventually(async () => {
    const found = (await sprite.listSessions()).filter(session => session.command.includes(part));
    return found.length === 1 && found[0];
  }, `a session of ${part}`);
}

operation('list sessions', async t => {
  const sprite = await t.box('sessions');
  assert.deepEqual(await sprite.listSessions(), []);
  const commands = [sprite.spawn('sleep', ['61']), sprite.spawn('sleep', ['62'], { tty: true, cwd: '/tmp' })].map(
    c => new Running(c),
  );
  const [plain, terminal] = [await sessionOf(sprite, 'sleep 61'), await sessionOf(sprite, 'sleep 62')];
  for (const session of [plain, terminal]) {
    assert.match(session.id, /^[0-9]+$/);
    assert(Math.abs(Date.now() - session.created) < 60_000);
    assert.equal(typeof session.bytesPerSecond, 'number');
  }
  assert.notEqual(plain.id, terminal.id);
  assert.deepEqual([plain.tty, plain.workdir, terminal.tty, terminal.workdir], [false, '/home/sprite', true, '/tmp']);
  assert.match(plain.command, /^\/.*sleep 61$/);
  await sprite.execFile('kill', [plain.id, terminal.id]);
  for (const command of commands) await command.exit;
  await eventually(async () => (await sprite.listSessions()).length === 0, 'no session is left');
});

operation('attach after a disconnect', async t => {
  const sprite = await t.box('attached');
  const first = t.spawn(sprite, 'stty -echo; echo before; read a; echo got $a; exit 6', { tty: true });
  await first.until('before');
  const session = await sessionOf(sprite, 'echo before');
  first.disconnect();
  // It goes on; what it said comes again, then what it says now.
  const second = new Running(sprite.attachSession(session.id));
  await second.until('before\r\n');
  await second.spawned;
  second.command.stdin.write('back\n');
  await second.exit;
  assert.equal(second.text(), 'before\r\ngot back\r\n');
  assert.equal(second.messages.find(message => message.type === 'exit').exit_code, 6);
  // One without a terminal: stdout and stderr stay apart, and its exit comes.
  const plain = t.spawn(sprite, 'echo out; echo err >&2; until [ -e ~/go ]; do sleep 0.05; done; exit 8');
  await plain.until('out');
  await plain.until('err', 'stderr');
  const other = await sessionOf(sprite, 'echo out');
  plain.disconnect();
  const again = new Running(sprite.attachSession(other.id));
  await again.until('out');
  await again.until('err', 'stderr');
  await sprite.exec('touch /home/sprite/go');
  assert.deepEqual([await again.exit, again.text(), again.text('stderr')], [8, 'out\n', 'err\n']);
});

operation('attach to an unknown session', async t => {
  const sprite = await t.box('attached');
  const error = await new Running(sprite.attachSession('99999999')).failed;
  assert.match(error.message, /^WebSocket (error|closed before open): /);
  return 'A refused WebSocket shows neither status nor reason, only `WebSocket error` (Node.js hides them).';
});

operation('kill a session', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'killSession']);
  const sprite = await t.box('killed');
  for (const [signal, code] of [
    [undefined, 143],
    ['SIGINT', 130],
    ['HUP', 129],
    ['KILL', 137],
  ]) {
    const running = new Running(sprite.spawn('sleep', ['300']));
    const session = await sessionOf(sprite, 'sleep 300');
    const stream = await sprite.killSession(session.id, signal, '5s');
    assert(stream instanceof t.sdk.SessionKillStream);
    const told = [];
    for await (const event of stream) told.push(event);
    assert.deepEqual(
      told.map(event => event.type),
      ['signal', 'exited', 'complete'],
    );
    assert.equal(told[0].pid, Number(session.id));
    assert.match(told[0].signal, /^SIG/);
    assert.equal(told[2].exitCode, code);
    assert.equal(await running.exit, code);
  }
  // A terminal is hung up; one that does not listen is killed after the time-out.
  const running = t.spawn(sprite, "trap '' TERM; echo ready; while :; do sleep 0.1; done", { tty: true });
  await running.until('ready');
  const session = await sessionOf(sprite, 'trap');
  const told = [];
  await (await sprite.killSession(session.id, 'SIGTERM', '300ms')).processAll(event => told.push(event.type));
  assert.deepEqual(told, ['signal', 'timeout', 'signal', 'killed', 'signal', 'complete']);
  await running.exit;
  assert.equal((await rejected(sprite.killSession('99999999'))).statusCode, 404);
  const late = await rejected(sprite.killSession(session.id));
  assert.deepEqual([late.name, late.statusCode], ['APIError', 410]);
});

operation('lifetime after a disconnect', async t => {
  const sprite = await t.box('lifetime');
  const gone = id =>
    eventually(async () => (await sprite.listSessions()).every(session => session.id !== id), 'the end', 5);
  const start = async (mark, options) => {
    const running = t.spawn(sprite, `echo ${mark}; exec sleep 600`, options);
    await running.until(mark);
    const { id } = await eventually(
      async () => (await sprite.listSessions()).find(s => !seen.has(s.id)),
      'its session',
    );
    seen.add(id);
    running.disconnect();
    return id;
  };
  const seen = new Set();
  const forever = await start('forever', { maxRunAfterDisconnect: '0' });
  const brief = await start('brief', { maxRunAfterDisconnect: '500ms' });
  if (t.old) {
    // The option is unknown to it and not sent: both live for the ten seconds of the platform.
    assert.equal((await rejected(gone(brief))).name, 'AssertionError');
    await sprite.execFile('kill', [forever, brief]);
    return 'There is no `maxRunAfterDisconnect`: a command without a terminal lives ten seconds after a disconnect.';
  }
  await gone(brief);
  assert((await sprite.listSessions()).some(session => session.id === forever));
  await sprite.execFile('kill', [forever]);
});

operation('a detachable session', async t => {
  const sprite = await t.box('detachable');
  const first = new Running(sprite.createSession('sh', ['-c', 'echo here; read a; echo $a'], { rows: 30, cols: 90 }));
  await first.until('here');
  const session = await sessionOf(sprite, 'echo here');
  assert.equal(session.tty, true);
  first.disconnect();
  const second = new Running(sprite.attachSession(session.id));
  await second.until('here');
  await second.spawned;
  second.command.stdin.write('bye\n');
  await second.exit;
  assert.match(second.text(), /here\r\n(bye\r\n){2}$/);
});
