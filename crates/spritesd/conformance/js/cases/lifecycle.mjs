// Sprites: made, found, listed, changed, watched, deleted.

import assert from 'node:assert/strict';

import { absent, eventually, json, notRun, operation, rejected, typed } from '../harness.mjs';

const recent = time => Math.abs(Date.now() - time.getTime()) < 60_000;
const notFound = { name: 'APIError', statusCode: 404, errorCode: 'sprite not found' };

/** What the answer to a create call says of a Sprite that never ran. */
function checkNew(t, sprite, name) {
  assert(sprite instanceof t.sdk.Sprite);
  assert.equal(sprite.name, name);
  assert.match(sprite.id, /^sprite-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.equal(sprite.status, 'cold');
  assert(recent(sprite.createdAt) && recent(sprite.updatedAt));
  assert.match(sprite.url, /^http/);
  assert(t.old ? sprite.organization : sprite.organizationName);
  if (t.old) return;
  assert.deepEqual([sprite.version, sprite.environmentVersion, sprite.lastRunningAt], [null, null, undefined]);
}

operation('create', async t => {
  const sprite = await t.client.createSprite(t.name('made'));
  checkNew(t, sprite, t.name('made'));
  assert.equal(sprite.urlSettings.auth, 'sprite');
  // A handle alone makes nothing and asks nothing.
  assert.equal(t.client.sprite(t.name('handle')).id, undefined);
  assert.deepEqual(typed(await rejected(t.client.getSprite(t.name('handle')))), notFound);
});

operation('create with size, labels, URL settings and runtime', async t => {
  const config = { ramMB: 512, cpus: 2, region: 'ord', storageGB: 10 };
  checkNew(t, await t.client.createSprite(t.name('sized'), config), t.name('sized'));
  if (t.old) return 'Only a size can be given; it is sent under names that the service does not know, and ignores.';
  const sprite = await t.client.createSprite(t.name('full'), {
    config,
    environment: { camelCase: 'kept' },
    urlSettings: { auth: 'public', privateAccess: 'admins' },
    labels: ['one', 'two=zwei'],
    waitForCapacity: true,
    runtime: 'dev',
  });
  checkNew(t, sprite, t.name('full'));
  assert.deepEqual(sprite.labels, ['one', 'two=zwei']);
  assert.deepEqual(sprite.urlSettings, { auth: 'public', privateAccess: 'admins' });
  const second = await t.client.createSprite(t.name('extra'), config, { labels: ['extra'] });
  assert.deepEqual(second.labels, ['extra']);
});

operation('get', async t => {
  const made = await t.box('got');
  const got = await t.client.getSprite(made.name);
  checkNew(t, got, made.name);
  assert.deepEqual([got.id, got.createdAt, got.url], [made.id, made.createdAt, made.url]);
});

operation('list one page', async t => {
  const names = [0, 1, 2].map(n => t.name(`page-${n}`));
  for (const name of names) await t.client.createSprite(name);
  const prefix = t.name('page-');
  const first = await t.client.listSprites({ prefix, maxResults: 2, bulkLoad: true });
  assert.deepEqual([first.sprites.map(s => s.name), first.hasMore], [names.slice(0, 2), true]);
  assert(first.sprites.every(s => s.id && s.url && recent(s.createdAt)));
  const rest = await t.client.listSprites({ prefix, maxResults: 2, continuationToken: first.nextContinuationToken });
  assert.deepEqual(
    [rest.sprites.map(s => s.name), rest.hasMore, rest.nextContinuationToken],
    [names.slice(2), false, null],
  );
  const nothing = await t.client.listSprites({ prefix: t.name('nobody') });
  assert.deepEqual([nothing.sprites, nothing.hasMore], [[], false]);
  assert((await t.client.listSprites()).sprites.length >= 3);
  if (t.old) return;
  assert(rest.cold >= 3 && rest.running >= 0 && rest.warm >= 0 && rest.organizationName);
});

operation('list all of 251, over several pages, none woken', async t => {
  // The runner makes them while the first cases run.
  const listed = async () => {
    const every = await t.client.listAllSprites(t.many);
    return every.length === 251 && every;
  };
  const every = await eventually(listed, '251 Sprites', 90);
  assert.deepEqual(
    every.map(s => s.name),
    Array.from({ length: 251 }, (_, n) => `${t.many}${String(n).padStart(3, '0')}`),
  );
  assert(every.every(s => s instanceof t.sdk.Sprite && s.status === 'cold' && s.lastRunningAt === undefined));
});

operation('update labels', async t => {
  if (t.old) return absent([t.sdk.SpritesClient.prototype, 'updateSprite'], [t.sdk.Sprite.prototype, 'update']);
  const sprite = await t.client.createSprite(t.name('labels'), { labels: ['old'] });
  for (const change of [o => sprite.update(o), o => t.client.updateSprite(sprite.name, o)]) {
    const updated = await change({ labels: ['new', 'newer'] });
    assert.deepEqual([updated.labels, updated.urlSettings.auth, updated.id], [['new', 'newer'], 'sprite', sprite.id]);
    assert.deepEqual((await change({ labels: [] })).labels, []);
    assert.deepEqual((await t.client.getSprite(sprite.name)).labels, []);
  }
  assert((await t.client.getSprite(sprite.name)).updatedAt > sprite.updatedAt);
  assert.equal((await rejected(sprite.update({}))).name, 'TypeError');
});

operation('update URL settings', async t => {
  const sprite = await t.client.createSprite(t.name('url'));
  const stored = async () => json((await t.client.getSprite(sprite.name)).urlSettings);
  await sprite.updateURLSettings({ auth: 'public' });
  assert.deepEqual(await stored(), { auth: 'public' });
  await t.client.updateURLSettings(sprite.name, { auth: 'sprite' });
  assert.deepEqual(await stored(), { auth: 'sprite' });
  if (t.old) return;
  await sprite.update({ urlSettings: { privateAccess: 'org_users' } });
  // A partial update: what is not named stays.
  await sprite.updateURLSettings({ auth: 'public' });
  assert.deepEqual(await stored(), { auth: 'public', privateAccess: 'org_users' });
});

operation('upgrade', async t => {
  const sprite = await t.box('upgraded');
  await sprite.upgrade();
  await t.client.upgradeSprite(sprite.name);
  assert.deepEqual(typed(await rejected(t.client.upgradeSprite(t.name('nobody')))), notFound);
  assert.equal((await sprite.exec('echo still')).stdout, 'still\n');
});

operation('restart', async t => {
  if (t.old) return absent([t.sdk.SpritesClient.prototype, 'restartSprite'], [t.sdk.Sprite.prototype, 'restart']);
  const sprite = await t.box('restarted');
  await t.sh(sprite, 'echo kept > ~/kept');
  const running = t.spawn(sprite, 'echo ready; exec sleep 600');
  await running.until('ready');
  const answer = await sprite.restart();
  assert.equal(answer.spriteName, sprite.name);
  assert(answer.machineId && answer.message, JSON.stringify(answer));
  // What ran is gone without an exit code, what was written is not.
  assert.equal(await running.exit, -1);
  assert.equal((await t.sh(sprite, 'cat kept; pgrep -x sleep')).stdout, 'kept\n');
  assert.equal((await t.client.restartSprite(sprite.name)).spriteName, sprite.name);
  assert.deepEqual(typed(await rejected(t.client.restartSprite(t.name('nobody')))), notFound);
});

operation('check health', async t => {
  if (t.old) return absent([t.sdk.SpritesClient.prototype, 'checkSprite'], [t.sdk.Sprite.prototype, 'check']);
  const sprite = await t.client.createSprite(t.name('checked'));
  const cold = await sprite.check();
  assert.deepEqual([cold.spriteName, cold.spriteId, cold.status], [sprite.name, sprite.id, 'hibernated']);
  assert(recent(cold.checkedAt) && typeof cold.elapsed === 'string');
  // Asking does not wake.
  assert.equal((await t.client.getSprite(sprite.name)).status, 'cold');
  await sprite.exec('true');
  assert.equal((await t.client.checkSprite(sprite.name)).status, 'healthy');
  assert.deepEqual(typed(await rejected(t.client.checkSprite(t.name('nobody')))), notFound);
});

operation('watch states', async t => {
  if (t.old) return absent([t.sdk.SpritesClient.prototype, 'watchSprites']);
  const sprite = await t.client.createSprite(t.name('watched'));
  const states = await t.client.watchSprites({ prefix: sprite.name, maxResults: 10 });
  assert(states instanceof t.sdk.SpriteListStream);
  const first = await states.next();
  assert.deepEqual([first.name, first.status, first.lastRunningAt], [sprite.name, 'cold', undefined]);
  assert(recent(first.timestamp) && first.organization.name && first.organization.cold >= 1);
  await sprite.exec('true');
  for await (const state of states) {
    assert.equal(state.name, sprite.name);
    if (state.status === 'running') {
      assert(state.organization.running >= 1);
      break;
    }
  }
  // The loop has closed it.
  assert.equal(await states.next(), null);
  const second = await t.client.watchSprites({ prefix: sprite.name });
  const seen = [];
  await second.processAll(state => {
    seen.push(state.status);
    second.close();
  });
  assert.deepEqual(seen, ['running']);
});

operation('delete', async t => {
  const calls = [s => s.delete(), s => s.destroy(), s => t.client.deleteSprite(s.name)];
  const ids = new Set();
  for (const call of calls) {
    const sprite = await t.client.createSprite(t.name('short-lived'));
    await t.sh(sprite, 'echo left > ~/left');
    await call(sprite);
    assert.deepEqual(typed(await rejected(t.client.getSprite(sprite.name))), notFound);
    assert.deepEqual(typed(await rejected(call(sprite))), notFound);
    ids.add(sprite.id);
  }
  assert.equal(ids.size, calls.length);
  const sprite = await t.client.createSprite(t.name('short-lived'));
  assert.equal((await sprite.exec('ls')).stdout, '');
});

operation('mint a token', async t => {
  assert.equal(typeof t.sdk.SpritesClient.createToken, 'function');
  return notRun("`createToken` goes to the vendor's public host, whatever the base URL.");
});
