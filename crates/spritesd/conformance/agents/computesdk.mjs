// The cases of @computesdk/sprites, which gives sandboxes to agents and speaks the API by itself, without the vendor's
// SDK: `computesdk.mjs FOLDER`, then parts of names to run only those.

import assert from 'node:assert/strict';
import { get as httpGet } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

import { absent, eventually, notRun, operation, rejected, runAll } from '../js/harness.mjs';

const [folder, ...only] = process.argv.slice(2);
const { sprites } = await import(pathToFileURL(`${folder}/dist/index.mjs`));
const { SPRITESD_AGENTS_URL, SPRITESD_TOKEN, SPRITESD_PREFIX } = process.env;

/** What cases get: the provider, a sandbox that is up, and the API as any other client sees it. */
class Suite {
  constructor() {
    this.compute = this.provider();
    this.made = 0;
  }

  provider(apiKey = SPRITESD_TOKEN) {
    return sprites({ apiKey, baseUrl: `${SPRITESD_AGENTS_URL}/v1` });
  }

  create(options = {}) {
    this.made += 1;
    return this.compute.sandbox.create({ name: `${SPRITESD_PREFIX}-${this.made}`, ...options });
  }

  /** A sandbox that cases share. */
  box() {
    this.shared ??= this.create().then(async sandbox => {
      await up(sandbox);
      return sandbox;
    });
    return this.shared;
  }

  /** The Sprite as the API tells it; asking wakes nothing. Undefined: there is none. */
  async told(sandbox) {
    const answer = await fetch(`${SPRITESD_AGENTS_URL}/v1/sprites/${sandbox.sandboxId}`, {
      headers: { authorization: `Bearer ${SPRITESD_TOKEN}` },
    });
    assert([200, 404].includes(answer.status), `status ${answer.status}`);
    return answer.ok ? answer.json() : undefined;
  }
}

const up = sandbox => eventually(async () => (await sandbox.getInfo()).status === 'running', 'the sandbox to be up');

/** A page behind a URL. Names below `localhost` are the loopback's; Node.js does not know that. */
function page(url, path, headers = {}) {
  const { host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    httpGet({ host: '127.0.0.1', port, path, agent: false, headers: { host, ...headers } }, answer => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', chunk => (text += chunk));
      answer.on('end', () => resolve({ status: answer.statusCode, text }));
      answer.on('error', reject);
    }).on('error', reject);
  });
}

async function run(sandbox, command, options) {
  const { stdout, stderr, exitCode } = await sandbox.runCommand(command, options);
  return { stdout, stderr, exitCode };
}

const gave = (stdout, exitCode = 0, stderr = '') => ({ stdout, stderr, exitCode });

/** A server of files in the sandbox, which goes on when the command has ended. */
async function serve(sandbox, content) {
  await sandbox.filesystem.writeFile('/home/sprite/web/page.txt', content);
  const command = 'nohup python3 -m http.server 8080 --directory /home/sprite/web >/dev/null 2>&1 &';
  assert.deepEqual(await run(sandbox, command), gave(''));
}

operation('create and wait until it is up', async t => {
  const sandbox = await t.create();
  assert.equal(sandbox.provider, 'sprites');
  // No call but the tool's own question for the state: a new Sprite boots by itself.
  await up(sandbox);
  const info = await sandbox.getInfo();
  assert.equal(info.metadata.name, sandbox.sandboxId);
  assert(Math.abs(info.createdAt - Date.now()) < 60_000, String(info.createdAt));
  assert.deepEqual(await run(sandbox, 'whoami'), gave('sprite\n'));
  await sandbox.destroy();
  const named = await t.create({ envs: { A: 'b' }, metadata: { purpose: 'test' }, labels: ['of-agents'] });
  assert.deepEqual((await t.told(named)).labels, ['of-agents']);
  await named.destroy();
});

operation('list', async t => {
  await t.box();
  assert.deepEqual(await t.compute.sandbox.list(), []);
  return '`list` takes the page for an array, hides the error of that, and gives nothing.';
});

operation('attach to one that is there', async t => {
  const first = await t.create();
  await first.filesystem.writeFile('/home/sprite/kept', 'kept');
  const again = await t.compute.sandbox.getById(first.sandboxId);
  assert.equal(again.sandboxId, first.sandboxId);
  assert.equal(await again.filesystem.readFile('/home/sprite/kept'), 'kept');
  assert.deepEqual(await run(again, 'cat kept'), gave('kept'));
  assert.equal(await t.compute.sandbox.getById('nobody'), null);
  await again.destroy();
});

operation('destroy', async t => {
  const sandbox = await t.create();
  await up(sandbox);
  await t.compute.sandbox.destroy(sandbox.sandboxId);
  assert.equal(await t.told(sandbox), undefined);
  assert.equal(await t.compute.sandbox.getById(sandbox.sandboxId), null);
  const after = await run(sandbox, 'echo there');
  assert.equal(after.exitCode, 1);
  assert.match(after.stderr, /not found/);
});

operation('refused with a wrong token', async t => {
  const error = await rejected(t.provider('wrong').sandbox.create({ name: 'stranger' }));
  assert.match(error.message, /^Sprites API error \(401\): /);
  assert.match((await rejected(t.create({ name: 'Not A Name' }))).message, /^Sprites API error \(400\): /);
});

operation('run: output and exit codes', async t => {
  const sandbox = await t.box();
  assert.deepEqual(await run(sandbox, 'echo "grüße: $HOME" | cat'), gave('grüße: /home/sprite\n'));
  for (const code of [1, 3, 126, 255]) assert.deepEqual(await run(sandbox, `(exit ${code})`), gave('', code));
  assert.equal((await run(sandbox, 'no-such-program')).exitCode, 127);
  assert.equal((await run(sandbox, "sh -c 'kill -9 $$'")).exitCode, 137);
  for (let number = 0; number < 20; number += 1) {
    assert.deepEqual(await run(sandbox, `echo ${number}`), gave(`${number}\n`));
  }
  const many = await Promise.all([0, 1, 2, 3, 4].map(n => run(sandbox, `sleep 0.1; echo ${n}`)));
  assert.deepEqual(
    many,
    [0, 1, 2, 3, 4].map(n => gave(`${n}\n`)),
  );
  assert.deepEqual(await run(sandbox, '(echo out; echo err >&2)'), gave('out\nerr\n'));
  assert.deepEqual(await run(sandbox, '(echo out; echo err >&2; exit 3)'), gave('', 3, 'out\nerr\n'));
  assert.deepEqual(await run(sandbox, 'exit 3'), gave(''));
  return 'Both outputs are one, `stdout` of a command that succeeds, else `stderr`; `exit 3` alone is told as 0.';
});

operation('run: environment and working directory', async t => {
  const sandbox = await t.box();
  const show = 'sh -c \'echo "$A in $(pwd)"\'';
  assert.deepEqual(await run(sandbox, show), gave(' in /home/sprite\n'));
  assert.deepEqual(await run(sandbox, show, { env: { A: 'one' } }), gave('one in /home/sprite\n'));
  assert.deepEqual(await run(sandbox, show, { cwd: '/tmp' }), gave(' in /tmp\n'));
  assert.deepEqual(await run(sandbox, show, { cwd: '/tmp', env: { A: 'one' } }), gave(' in /tmp\n'));
  return 'With a working directory the environment is for `cd` alone.';
});

operation('run: 1 MB of output', async t => {
  const { stdout, exitCode } = await run(await t.box(), "head -c 1000000 /dev/zero | tr '\\0' x");
  assert.deepEqual([exitCode, stdout.length, stdout.replaceAll('x', '')], [0, 1_000_000, '']);
});

operation('run: time limit', async t => {
  const start = Date.now();
  assert.deepEqual(await run(await t.box(), 'sleep 1.5; echo late', { timeout: 200 }), gave('late\n'));
  assert(Date.now() - start >= 1500);
  return '`timeout` is ignored.';
});

operation('run: output before the end', () =>
  notRun('Commands with `onStdout` need a Node.js in the Sprite, which has the programs of this machine.'),
);

operation('run: in the background', async t => {
  const sandbox = await t.box();
  assert.deepEqual(await run(sandbox, 'nohup sleep 615 >/dev/null 2>&1 & echo started'), gave('started\n'));
  await sleep(300);
  assert.match((await run(sandbox, 'pgrep -fxa "sleep 61[5]"')).stdout, /^\d+ sleep 615\n$/);
  assert.equal((await run(sandbox, 'pkill -fx "sleep 61[5]"')).exitCode, 0);
});

operation('run: input and a terminal', async t => absent([await t.box(), 'terminal']));

operation('files: write, read, list', async t => {
  const { filesystem } = await t.box();
  const content = 'grüße\n'.repeat(150_000);
  await filesystem.writeFile('/home/sprite/some/where/text', content);
  assert.equal((await filesystem.readFile('/home/sprite/some/where/text')) === content, true);
  await filesystem.writeFile('/home/sprite/some/where/text', 'shorter');
  assert.equal(await filesystem.readFile('/home/sprite/some/where/text'), 'shorter');
  await filesystem.mkdir('/home/sprite/some/other');
  const listed = await filesystem.readdir('/home/sprite/some');
  assert.deepEqual(listed.map(({ name, type }) => `${name}: ${type}`).sort(), ['other: directory', 'where: directory']);
  const [entry, ...more] = await filesystem.readdir('/home/sprite/some/where');
  assert.deepEqual([entry.name, entry.type, entry.size, more], ['text', 'file', 7, []]);
  assert(Math.abs(entry.modified - Date.now()) < 60_000, String(entry.modified));
  assert.deepEqual(await run(await t.box(), 'cat some/where/text'), gave('shorter'));
});

operation('files: remove', async t => {
  const { filesystem } = await t.box();
  await filesystem.writeFile('/home/sprite/dir/file', 'x');
  assert.match((await rejected(filesystem.remove('/home/sprite/dir'))).message, /API error \(4\d\d\)/);
  await filesystem.remove('/home/sprite/dir/file');
  assert.deepEqual(await filesystem.readdir('/home/sprite/dir'), []);
  await filesystem.remove('/home/sprite/dir');
  assert.equal(await filesystem.exists('/home/sprite/dir'), false);
});

operation('files: what is missing', async t => {
  const { filesystem } = await t.box();
  await filesystem.writeFile('/home/sprite/here/file', 'x');
  for (const path of ['/home/sprite/here', '/home/sprite/here/file']) assert.equal(await filesystem.exists(path), true);
  assert.equal(await filesystem.exists('/home/sprite/nobody'), false);
  for (const call of ['readFile', 'readdir', 'remove']) {
    assert.match((await rejected(filesystem[call]('/home/sprite/nobody'))).message, /API error \(404\)$/, call);
  }
  assert.match((await rejected(filesystem.readFile('/home/sprite/here'))).message, /API error \(4\d\d\)$/);
});

operation('files: the workspace as an archive', t => absent([t.compute, 'snapshot'], [t.compute, 'template']));

operation('checkpoint and restore', t => absent([t.compute, 'snapshot']));

operation('a port by the URL', async t => {
  const sandbox = await t.create();
  await serve(sandbox, 'served');
  const url = await sandbox.getUrl({ port: 8080, protocol: 'http' });
  assert.equal(new URL(url).hostname, `${sandbox.sandboxId}.localhost`);
  const answer = await eventually(async () => {
    const answer = await page(url, '/page.txt').catch(() => undefined);
    return answer?.status === 200 && answer;
  }, 'the page');
  assert.equal(answer.text, 'served');
  assert.equal((await page(url, '/nobody')).status, 404);
  assert.equal(new URL(await sandbox.getUrl({ port: 8080 })).protocol, 'https:');
  assert.equal(new URL(await sandbox.getUrl({ port: 9090, protocol: 'http' })).href, new URL(url).href);
  await sandbox.destroy();
  return 'The URL is that of the Sprite, whatever the port, and `https` unless told otherwise.';
});

operation('who may ask the URL', async t => {
  const open = await t.create();
  assert.equal((await t.told(open)).url_settings.auth, 'public');
  await open.destroy();
  const closed = await t.create({ url_settings: { auth: 'sprite' } });
  await serve(closed, 'private');
  const url = await closed.getUrl({ port: 8080, protocol: 'http' });
  const bearer = { authorization: `Bearer ${SPRITESD_TOKEN}` };
  await eventually(
    async () => (await page(url, '/page.txt', bearer).catch(() => undefined))?.text === 'private',
    'the page for who has the token',
  );
  assert([401, 403].includes((await page(url, '/page.txt')).status));
  await closed.destroy();
});

operation('an agent works with the tools', t => absent([t.compute, 'tools']));

operation('an agent learns of the platform', t => absent([t.compute, 'instructions']));

operation(
  'a pause until the Sprite is warm',
  async t => {
    const sandbox = await t.create();
    await sandbox.filesystem.writeFile('/home/sprite/kept', 'kept');
    const counter = 'n=0; while :; do n=$((n + 1)); echo $n > count; sleep 0.1; done';
    assert.deepEqual(await run(sandbox, `(${counter}) >/dev/null 2>&1 &`), gave(''));
    const warm = async () => (await sleep(500), (await t.told(sandbox)).status === 'warm');
    await eventually(warm, 'the Sprite to be warm', 60);
    assert.equal((await sandbox.getInfo()).status, 'running');
    // The next call wakes it; what ran goes on.
    assert.equal(await sandbox.filesystem.readFile('/home/sprite/kept'), 'kept');
    assert.equal((await t.told(sandbox)).status, 'running');
    const count = async () => Number(await sandbox.filesystem.readFile('/home/sprite/count'));
    const before = Number((await run(sandbox, 'cat count')).stdout);
    await eventually(async () => (await count()) > before, 'the counter to go on');
    await sandbox.destroy();
  },
  { beside: true },
);

await runAll(new Suite(), undefined, only);
process.exit(0);
