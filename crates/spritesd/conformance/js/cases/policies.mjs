// Policies: what is set is what is read.

import assert from 'node:assert/strict';

import { absent, json, operation, rejected } from '../harness.mjs';

const RULES = [
  { domain: '*.example.org', action: 'deny' },
  { domain: 'example.com', action: 'allow' },
  { include: 'defaults' },
  { domain: 'a.example.org', action: 'allow' },
  { domain: '*', action: 'deny' },
];

operation('network policy: set and read back in order', async t => {
  const sprite = await t.box('policy');
  assert.deepEqual(await sprite.getNetworkPolicy(), { rules: [] });
  for (const rules of [RULES, RULES.toReversed(), RULES.slice(0, 1), [{ domain: '*', action: 'deny' }], [], RULES]) {
    await sprite.updateNetworkPolicy({ rules });
    assert.deepEqual(await sprite.getNetworkPolicy(), { rules });
  }
});

operation('network policy: invalid', async t => {
  const sprite = await t.box('policy-invalid');
  const kept = { rules: [{ domain: 'example.com', action: 'allow' }] };
  await sprite.updateNetworkPolicy(kept);
  for (const rule of [
    { domain: 'example.com', action: 'perhaps' },
    { domain: 'example.com' },
    { action: 'allow' },
    { include: 'everything' },
    { domain: 'exa mple.com', action: 'allow' },
  ])
    assert.match(
      (await rejected(sprite.updateNetworkPolicy({ rules: [rule] }))).message,
      /^Invalid policy: ./,
      JSON.stringify(rule),
    );
  assert.deepEqual(await sprite.getNetworkPolicy(), kept);
});

operation('privileges policy', async t => {
  if (t.old)
    return absent([t.sdk.Sprite.prototype, 'getPrivilegesPolicy'], [t.sdk.Sprite.prototype, 'updatePrivilegesPolicy']);
  const sprite = await t.box('policy');
  const unset = await sprite.getPrivilegesPolicy();
  assert.equal(typeof unset, 'object');
  for (const policy of [
    { profile: 'minimal', devices: [], noNewPrivileges: true },
    { profile: 'standard', devices: ['/dev/fuse'], noNewPrivileges: false },
  ]) {
    await sprite.updatePrivilegesPolicy(policy);
    assert.deepEqual(await sprite.getPrivilegesPolicy(), policy);
  }
  assert.match((await rejected(sprite.updatePrivilegesPolicy({ profile: 'royal' }))).message, /\(status 400\)/);
  await sprite.deletePrivilegesPolicy();
  assert.deepEqual(await sprite.getPrivilegesPolicy(), unset);
});

operation('resources policy', async t => {
  if (t.old)
    return absent([t.sdk.Sprite.prototype, 'getResourcesPolicy'], [t.sdk.Sprite.prototype, 'updateResourcesPolicy']);
  const sprite = await t.box('policy');
  const unset = json(await sprite.getResourcesPolicy());
  const policy = { memory: { limitMB: 512, autoscale: false } };
  await sprite.updateResourcesPolicy(policy);
  assert.deepEqual(await sprite.getResourcesPolicy(), policy);
  await sprite.deleteResourcesPolicy();
  assert.deepEqual(json(await sprite.getResourcesPolicy()), unset);
});
