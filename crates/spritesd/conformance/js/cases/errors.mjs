// Refusals, by the type that the SDK makes of them.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';

import { Running, operation, rejected, typed } from '../harness.mjs';

const OPAQUE = 'A refused WebSocket shows neither status nor reason, only `WebSocket error` (Node.js hides them).';

/** What a command on a refused WebSocket gives. */
async function opaque(t, sprite) {
  const error = await new Running(sprite.spawn('true')).failed;
  assert.match(error.message, /^WebSocket (error|closed before open): /);
  assert.deepEqual(typed(error), { name: 'Error', statusCode: undefined, errorCode: undefined });
  assert.match((await rejected(sprite.execFile('true'))).message, /^WebSocket error: /);
}

operation('401 wrong token', async t => {
  const box = await t.box();
  for (const token of ['wrong', `${t.token}x`, t.token.slice(0, -1)]) {
    const stranger = t.connect({ token });
    const refused = { name: 'APIError', statusCode: 401, errorCode: 'authentication failed' };
    for (const call of [
      () => stranger.listSprites(),
      () => stranger.getSprite(box.name),
      () => stranger.createSprite(t.name('stranger')),
      () => stranger.deleteSprite(box.name),
    ])
      assert.deepEqual(typed(await rejected(call())), refused);
    assert.match(
      (await rejected(stranger.sprite(box.name).listSessions())).message,
      /\(status 401\): .*authentication failed/,
    );
    await opaque(t, stranger.sprite(box.name));
  }
  assert.equal((await t.client.getSprite(box.name)).id, box.id);
  return OPAQUE;
});

operation('404 missing Sprite', async t => {
  const ghost = t.client.sprite(t.name('ghost'));
  const missing = { name: 'APIError', statusCode: 404, errorCode: 'sprite not found' };
  for (const call of [
    () => t.client.getSprite(ghost.name),
    () => ghost.updateURLSettings({ auth: 'public' }),
    () => ghost.delete(),
    () => ghost.upgrade(),
  ])
    assert.deepEqual(typed(await rejected(call())), missing);
  for (const call of [
    () => ghost.listSessions(),
    () => ghost.getNetworkPolicy(),
    () => ghost.updateNetworkPolicy({ rules: [] }),
    () => ghost.listCheckpoints(),
    () => ghost.createCheckpoint(),
    () => ghost.listServices(),
  ])
    assert.match((await rejected(call())).message, /\(status 404\): .*sprite not found/);
  assert.match((await rejected(ghost.filesystem().readFile('/x'))).message, /sprite not found/);
  await opaque(t, ghost);
  return OPAQUE;
});

operation('409 duplicate name', async t => {
  const box = await t.box();
  const message = `A sprite named '${box.name}' already exists. Please choose a different name.`;
  const error = await rejected(t.client.createSprite(box.name));
  assert.deepEqual(typed(error), { name: 'APIError', statusCode: 409, errorCode: message });
  assert.equal(error.message, message);
  assert.equal((await t.client.getSprite(box.name)).id, box.id);
});

operation('400 invalid input', async t => {
  for (const name of ['', '-x', 'x-', 'Upper', 'under_score', 'dot.dot', 'a'.repeat(64), 'ü', 'a b', 'a/b']) {
    const error = await rejected(t.client.createSprite(name));
    assert.deepEqual([error.name, error.statusCode], ['APIError', 400], name);
  }
  const error = await rejected((await t.box()).updateURLSettings({ auth: 'everybody' }));
  assert.deepEqual([error.name, error.statusCode], ['APIError', 400]);
  // The platform lists its reasons under `errors`, which the SDK does not read.
  assert.equal(error.message, 'API error (status 400)');
  return 'The reasons of a 400 are lost: `APIError` says only `API error (status 400)`.';
});

operation('429 creation rate, with all fields', async t => {
  // A server of its own, whose one creation an hour the runner has used.
  const error = await rejected(t.connect({ url: t.rateURL }).createSprite(t.name('limited')));
  assert(error instanceof t.sdk.APIError);
  assert.deepEqual(typed(error), {
    name: 'APIError',
    statusCode: 429,
    errorCode: t.sdk.ERR_CODE_CREATION_RATE_LIMITED,
  });
  assert(error.isRateLimitError() && error.isCreationRateLimited() && !error.isConcurrentLimitExceeded());
  assert.deepEqual([error.limit, error.windowSeconds, error.currentCount], [1, 3600, 1]);
  assert.deepEqual([error.rateLimitLimit, error.rateLimitRemaining], [1, 0]);
  assert(error.getRetryAfterSeconds() > 0 && error.getRetryAfterSeconds() <= 3600);
  assert.equal(error.retryAfterHeader, error.retryAfterSeconds);
  assert(error.rateLimitReset > Date.now() / 1000);
  if (!t.old) assert.match(error.message, /limit: 1 per 3600s, current: 1, retry after: \d+s/);
  assert.equal(t.sdk.parseAPIError(200, ''), undefined);
});

operation('429 concurrent limit', async t => {
  // A server where the one Sprite that may run is running.
  const client = t.connect({ url: t.busyURL });
  const error = await rejected(client.createSprite(t.name('limited')));
  assert.deepEqual(typed(error), {
    name: 'APIError',
    statusCode: 429,
    errorCode: t.sdk.ERR_CODE_CONCURRENT_LIMIT_EXCEEDED,
  });
  assert(error.isConcurrentLimitExceeded() && !error.isCreationRateLimited());
  assert.deepEqual([error.limit, error.currentCount], [1, 1]);
  assert(error.getRetryAfterSeconds() > 0 && error.retryAfterHeader > 0);
  await opaque(t, client.sprite('cold'));
  return OPAQUE;
});

operation('connection refused', async t => {
  const unheard = createServer();
  await new Promise(resolve => unheard.listen(0, '127.0.0.1', resolve));
  const { port } = unheard.address();
  await new Promise(resolve => unheard.close(resolve));
  const client = t.connect({ url: `http://127.0.0.1:${port}` });
  assert.match((await rejected(client.listSprites())).message, /^Network error: /);
  assert.match((await rejected(client.sprite('x').execFile('true'))).message, /^WebSocket error: /);
  assert.equal((await rejected(client.sprite('x').filesystem().readFile('/x'))).name, 'TypeError');
});
