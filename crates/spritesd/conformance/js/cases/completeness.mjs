// The end: every public function and method of the SDK was called by the cases before.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import { operation } from '../harness.mjs';

export const NAME = 'every public operation is exercised';

const EXCUSED = {
  'SpritesClient.createToken': "goes to the vendor's public host",
};

/** Every function and method that the SDK exports, inherited ones of its own classes too. */
function* publicMembers(sdk) {
  const seen = new Set();
  for (const [name, value] of Object.entries(sdk)) {
    if (typeof value !== 'function') continue;
    if (!/^class\b/.test(value.toString())) {
      yield { name, body: value, owner: value };
      continue;
    }
    for (
      let owner = value;
      /^class\b/.test(Function.prototype.toString.call(owner));
      owner = Object.getPrototypeOf(owner)
    ) {
      if (seen.has(owner) || owner.name === 'EventEmitter') continue;
      seen.add(owner);
      for (const place of [owner, owner.prototype]) {
        for (const key of Reflect.ownKeys(place)) {
          const { value: method, get } = Object.getOwnPropertyDescriptor(place, key);
          const body = typeof method === 'function' ? method : get;
          if (body && key !== 'constructor' && key !== 'prototype')
            yield { name: `${owner.name}.${String(key)}`, body, owner };
        }
      }
    }
  }
}

operation(NAME, async t => {
  const { result } = await t.engine.post('Profiler.takePreciseCoverage');
  const scripts = [];
  const folder = new URL('.', import.meta.resolve(result.find(script => script.url.endsWith('/dist/client.js')).url))
    .href;
  for (const script of result.filter(({ url }) => url.startsWith(folder))) {
    const called = new Set(script.functions.filter(f => f.ranges[0].count > 0).map(f => f.ranges[0].startOffset));
    scripts.push({ text: await readFile(fileURLToPath(script.url), 'utf8'), called });
  }
  const missing = [];
  let members = 0;
  for (const { name, body, owner } of publicMembers(t.sdk)) {
    const source = Function.prototype.toString.call(owner);
    // A class is found by its whole text, which its name makes unique; its method by its text inside of it.
    const script = scripts.find(({ text }) => text.includes(source));
    assert(script, `${name} is in no source`);
    const inside = owner === body ? 0 : source.indexOf(Function.prototype.toString.call(body));
    assert(inside >= 0, name);
    members += 1;
    // A getter and a static method begin for the engine after their first word.
    const start = script.text.indexOf(source) + inside;
    const word = /^(?:static |get )*/.exec(script.text.slice(start))[0].length;
    if (!script.called.has(start) && !script.called.has(start + word)) missing.push(name);
  }
  assert(members > 100, `${members} members`);
  // An excuse for what was called, or is not there any more, is one too many.
  assert.deepEqual(missing.sort(), Object.keys(EXCUSED).sort());
});
