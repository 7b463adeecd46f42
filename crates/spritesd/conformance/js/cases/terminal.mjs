// Commands on a terminal.

import assert from 'node:assert/strict';

import { operation } from '../harness.mjs';

operation('terminal: size and merged output', async t => {
  const box = await t.box();
  const script = "stty size; tty; echo err >&2; printf 'a\\nb'";
  const done = await t.sh(box, script, { tty: true, rows: 31, cols: 97 });
  const [size, terminal, ...rest] = done.stdout.split('\r\n');
  assert.deepEqual([size, rest, done.stderr], ['31 97', ['err', 'a', 'b'], '']);
  assert.match(terminal, /^\/dev\/pts\//);
  assert.equal((await t.sh(box, 'stty size', { tty: true })).stdout, '24 80\r\n');
});

operation('terminal: exit code', async t => {
  const box = await t.box();
  for (const code of [0, 7, 255]) {
    const running = t.spawn(box, `echo out; exit ${code}`, { tty: true });
    assert.deepEqual([await running.exit, running.text()], [0, 'out\r\n']);
    const [told] = running.messages.filter(message => message.type === 'exit');
    assert.equal(told.exit_code, code);
  }
  return 'The exit code on a terminal is 0 after every normal close; the real one is only in a `message` event.';
});

operation('terminal: resize', async t => {
  const script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
  const running = t.spawn(await t.box(), script, { tty: true, rows: 20, cols: 60 });
  await running.until('ready');
  running.command.resize(101, 41);
  await running.exit;
  assert.equal(running.text(), 'ready\r\n41 101\r\n');
});

operation('terminal: input', async t => {
  const box = await t.box();
  const running = t.spawn(box, 'stty -echo; echo ready; read a; echo got $a; cat; exit 5', { tty: true });
  await running.until('ready');
  running.command.stdin.write('one\n');
  await running.until('got one');
  running.command.stdin.write('two\n');
  await running.until('two\r\n');
  // The end of input is a key; so is an interrupt.
  running.command.stdin.write('\x04');
  await running.exit;
  assert.equal(running.messages.find(message => message.type === 'exit').exit_code, 5);
  assert.equal(running.text(), 'ready\r\ngot one\r\ntwo\r\n');
  const interrupted = t.spawn(box, 'echo ready; exec sleep 60', { tty: true });
  await interrupted.until('ready');
  interrupted.command.stdin.write('\x03');
  await interrupted.exit;
  assert.equal(interrupted.messages.find(message => message.type === 'exit').exit_code, 130);
});
