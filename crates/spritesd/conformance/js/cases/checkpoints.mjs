// Checkpoints: real copies of a Sprite's files.

import assert from 'node:assert/strict';

import { operation, rejected } from '../harness.mjs';

async function create(sprite, comment) {
  const told = [];
  for await (const message of await sprite.createCheckpoint(comment)) told.push(message);
  return told;
}

function checkCreated(told, id) {
  assert.deepEqual(
    told.map(message => message.type),
    [...Array(told.length - 1).fill('info'), 'complete'],
  );
  assert.equal(told.at(-1).data, `Checkpoint ${id} created successfully`);
  assert(told.some(message => message.data?.includes(`ID: ${id}`)));
  assert(told.every(message => Math.abs(Date.now() - new Date(message.time)) < 60_000 && !message.error));
}

operation('checkpoint: create', async t => {
  const sprite = await t.box('created');
  checkCreated(await create(sprite, 'first'), 'v1');
  const stream = await sprite.createCheckpoint();
  assert(stream instanceof t.sdk.CheckpointStream);
  const told = [];
  await stream.processAll(message => told.push(message));
  checkCreated(told, 'v2');
  assert.equal(await stream.next(), null);
});

operation('checkpoint: list and get', async t => {
  const sprite = await t.box('listed');
  await create(sprite, 'a comment – ünï');
  await create(sprite);
  const found = await sprite.listCheckpoints();
  assert.deepEqual(found.map(c => c.id).sort(), ['Current', 'v0', 'v1', 'v2']);
  assert.deepEqual(
    found.map(c => c.id).filter(id => id !== 'Current'),
    ['v2', 'v1', 'v0'],
  );
  const first = found.find(c => c.id === 'v1');
  assert.equal(first.comment, 'a comment – ünï');
  assert(Math.abs(Date.now() - first.createTime) < 60_000);
  const got = await sprite.getCheckpoint('v1');
  assert.deepEqual(got, first);
  assert(Array.isArray(await sprite.listCheckpoints('v1')));
  if (!t.old) assert.deepEqual([got.isAuto, got.health], [false, '']);
});

operation('checkpoint: restore', async t => {
  const sprite = await t.box('restored');
  const fs = sprite.filesystem('/home/sprite');
  await fs.writeFile('file', 'before');
  await create(sprite);
  await fs.writeFile('file', 'after');
  await fs.writeFile('newer', 'discarded');
  const stream = await sprite.restoreCheckpoint('v1');
  assert(stream instanceof t.sdk.RestoreStream);
  const told = [];
  for await (const message of stream) told.push(message);
  assert.deepEqual([told.at(-1).type, told.at(-1).data], ['complete', 'Restore from v1 complete']);
  assert(told.slice(0, -1).every(message => message.type === 'info'));
  assert.equal((await t.sh(sprite, 'cat file; ls')).stdout, 'beforefile\n');
  let last;
  await (
    await sprite.restoreCheckpoint('v1')
  ).processAll(message => {
    last = message.type;
  });
  assert.equal(last, 'complete');
  assert.equal((await t.client.getSprite(sprite.name)).id, sprite.id);
});

operation('checkpoint: errors', async t => {
  const sprite = await t.box('created');
  assert.equal((await rejected(sprite.getCheckpoint('v99'))).message, 'Checkpoint not found: v99');
  const told = [];
  for await (const message of await sprite.restoreCheckpoint('v99')) told.push(message);
  assert.equal(told.at(-1).type, 'error');
  assert.match(told.at(-1).error, /v99/);
  const ghost = t.client.sprite(t.name('ghost'));
  assert.match((await rejected(ghost.restoreCheckpoint('v1'))).message, /\(status 404\)/);
});
