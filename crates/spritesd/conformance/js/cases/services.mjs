// Services: programs that the Sprite keeps running.

import assert from 'node:assert/strict';
import { get as httpGet } from 'node:http';

import { absent, eventually, operation, rejected } from '../harness.mjs';

const SERVE = { cmd: 'python3', args: ['-m', 'http.server', '8080', '--directory', '/home/sprite'] };

/** The port under the name that this version sends as it is. */
const port = (t, number) => (t.old ? { http_port: number } : { httpPort: number });
const exitCode = (t, event) => (t.old ? event.exit_code : event.exitCode);
const pid = async (sprite, name) => (await sprite.getService(name)).state.pid;
const status = async (sprite, name) => (await sprite.getService(name)).state.status;

async function collect(stream) {
  const told = [];
  for await (const event of await stream) told.push(event);
  return told;
}

const create = (sprite, name, config, duration = '200ms') => collect(sprite.createService(name, config, duration));
const sleeper = { cmd: 'sleep', args: ['600'] };

operation('service: create with log stream', async t => {
  const sprite = await t.box('services');
  const told = await create(
    sprite,
    'talk',
    { cmd: 'sh', args: ['-c', 'echo out; echo err >&2; exec sleep 600'] },
    '1500ms',
  );
  assert.equal(told[0].type, 'started');
  assert.deepEqual(
    told.filter(e => e.type === 'stdout').map(e => e.data),
    ['out\n'],
  );
  assert.deepEqual(
    told.filter(e => e.type === 'stderr').map(e => e.data),
    ['err\n'],
  );
  assert.equal(told.at(-1).type, 'complete');
  const files = t.old ? told.at(-1).log_files : told.at(-1).logFiles;
  assert(files.stdout && files.stderr);
  assert(told.every(event => Math.abs(Date.now() - event.timestamp) < 60_000));
  assert.equal(await status(sprite, 'talk'), 'running');
  const brief = await create(sprite, 'brief', { cmd: 'sh', args: ['-c', 'exit 3'] }, '1s');
  assert.equal(
    exitCode(
      t,
      brief.find(e => e.type === 'exit'),
    ),
    3,
  );
  const stream = await sprite.createService('talk', { cmd: 'sleep', args: ['601'] }, '200ms');
  assert(stream instanceof t.sdk.ServiceLogStream);
  let last;
  await stream.processAll(event => {
    last = event.type;
  });
  assert.equal(last, 'complete');
  assert.equal((await sprite.getService('talk')).cmd, 'sleep');
  if (t.old) return 'Exit codes and log files of the events have their names of the wire, not those of the types.';
});

operation('service: list and get', async t => {
  const sprite = await t.box('services-listed');
  assert.deepEqual(await sprite.listServices(), []);
  await create(sprite, 'one', sleeper);
  await create(sprite, 'web', { ...SERVE, ...port(t, 8080) });
  const found = await sprite.listServices();
  assert.deepEqual(found.map(s => s.name).sort(), ['one', 'web']);
  const web = await sprite.getService('web');
  assert.deepEqual([web.name, web.cmd, web.args, web.needs], ['web', SERVE.cmd, SERVE.args, []]);
  assert.deepEqual([web.state.name, web.state.status], ['web', 'running']);
  assert(web.state.pid > 0);
  const started = t.old ? web.state.started_at : web.state.startedAt;
  assert(Math.abs(Date.now() - new Date(started)) < 60_000);
  if (!t.old) {
    assert.deepEqual([web.httpPort, web.state.restartCount ?? 0], [8080, 0]);
    return undefined;
  }
  assert.deepEqual([web.http_port, web.httpPort], [8080, undefined]);
  // Its own name for the port is sent as it is, and means nothing to the platform.
  assert.match(
    (await rejected(create(sprite, 'one', { ...sleeper, httpPort: 8081 }))).message,
    /\(status 400\).*httpPort/,
  );
  return '`httpPort` is sent and read under that name, which is not the one of the wire: a service with it is refused.';
});

operation('service: environment, directory and needs', async t => {
  const sprite = await t.box('services-needs');
  await create(sprite, 'base', sleeper);
  const config = {
    cmd: 'sh',
    args: ['-c', 'echo $GREETING; pwd; exec sleep 600'],
    needs: ['base'],
    env: { GREETING: 'hello wörld' },
    dir: '/tmp',
  };
  const told = await create(sprite, 'user', config, '1s');
  assert.equal(
    told
      .filter(e => e.type === 'stdout')
      .map(e => e.data)
      .join(''),
    'hello wörld\n/tmp\n',
  );
  const got = await sprite.getService('user');
  assert.deepEqual([got.needs, got.env, got.dir], [['base'], config.env, '/tmp']);
});

operation('service: stop and start', async t => {
  const sprite = await t.box('services');
  await create(sprite, 'stopped', sleeper);
  const before = await pid(sprite, 'stopped');
  const stop = (await collect(sprite.stopService('stopped', '5s'))).map(e => e.type);
  assert(stop.includes('stopping') && stop.includes('stopped') && stop.at(-1) === 'complete', stop.join());
  assert.equal(await status(sprite, 'stopped'), 'stopped');
  assert.match((await rejected(sprite.stopService('stopped'))).message, /^Service not running: /);
  const start = (await collect(sprite.startService('stopped', '500ms'))).map(e => e.type);
  assert.deepEqual([start[0], start.at(-1)], ['started', 'complete']);
  assert.equal(await status(sprite, 'stopped'), 'running');
  assert.notEqual(await pid(sprite, 'stopped'), before);
});

operation('service: restart', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'restartService']);
  const sprite = await t.box('services');
  await create(sprite, 'again', sleeper);
  const before = await pid(sprite, 'again');
  const told = (await collect(sprite.restartService('again', '500ms'))).map(e => e.type);
  assert(told.includes('started') && told.at(-1) === 'complete', told.join());
  assert.equal(await status(sprite, 'again'), 'running');
  assert.notEqual(await pid(sprite, 'again'), before);
  assert.match((await rejected(sprite.restartService('nobody'))).message, /\(status 404\)/);
});

operation('service: signal', async t => {
  const sprite = await t.box('services');
  const script = "trap 'echo hup > ~/heard' HUP; echo ready; while :; do sleep 0.05; done";
  const told = await create(sprite, 'listens', { cmd: 'sh', args: ['-c', script] }, '1s');
  assert(told.some(e => e.data === 'ready\n'));
  const before = await pid(sprite, 'listens');
  await sprite.signalService('listens', 'HUP');
  await eventually(() => sprite.filesystem('/home/sprite').exists('heard'), 'the signal was heard');
  assert.equal(await pid(sprite, 'listens'), before);
  // One that ends by a signal is started again.
  await sprite.signalService('listens', 'SIGKILL');
  await eventually(async () => {
    const { state } = await sprite.getService('listens');
    return state.status === 'running' && state.pid !== before && (t.old ? state.restart_count : state.restartCount) > 0;
  }, 'it is restarted');
  assert.match((await rejected(sprite.signalService('listens', 'NOISE'))).message, /^Invalid signal: /);
  assert.match((await rejected(sprite.signalService('nobody', 'TERM'))).message, /^Service not found: /);
});

operation('service: logs', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'getServiceLogs']);
  const sprite = await t.box('services-logs');
  const script = 'for n in 1 2 3; do echo line $n; done; exec sleep 600';
  await create(sprite, 'writes', { cmd: 'sh', args: ['-c', script] }, '1s');
  const lines = async options =>
    (await collect(sprite.getServiceLogs('writes', options))).filter(e => e.type === 'stdout').map(e => e.data);
  assert.equal((await lines({ duration: '0' })).join(''), 'line 1\nline 2\nline 3\n');
  assert.equal((await lines({ lines: 1, duration: '0' })).join(''), 'line 3\n');
  assert.equal((await lines({ duration: '300ms' })).join(''), 'line 1\nline 2\nline 3\n');
  // What is written is in a file for the guest, too.
  assert.match((await t.sh(sprite, 'cat /.sprite/logs/services/writes.log')).stdout, /^(\S+Z \[stdout\] line [123]\n){3}$/);
  assert.match((await rejected(sprite.getServiceLogs('nobody'))).message, /\(status 404\)/);
});

operation('service: delete', async t => {
  const sprite = await t.box('services-deleted');
  await create(sprite, 'gone', { cmd: 'sleep', args: ['612'] });
  await sprite.deleteService('gone');
  assert.deepEqual(await sprite.listServices(), []);
  assert.match((await rejected(sprite.getService('gone'))).message, /^Service not found: /);
  assert.match((await rejected(sprite.deleteService('gone'))).message, /^Service not found: /);
  assert.equal((await t.run(sprite, 'pgrep', ['-f', 'sleep 612'])).stdout, '');
});

operation('service: errors', async t => {
  const sprite = await t.box('services-errors');
  for (const call of [
    () => sprite.getService('nobody'),
    () => sprite.startService('nobody'),
    () => sprite.stopService('nobody'),
  ]) {
    assert.match((await rejected(call())).message, /^Service not found: /);
  }
  await create(sprite, 'web', { ...SERVE, ...port(t, 8080) });
  const conflict = await rejected(sprite.createService('other', { ...sleeper, ...port(t, 8081) }));
  assert.match(conflict.message, /^Service conflict: .*another service already has an HTTP port configured/);
  assert.match((await rejected(sprite.createService('empty', { cmd: '' }))).message, /\(status 400\)/);
  assert.deepEqual(
    (await sprite.listServices()).map(s => s.name),
    ['web'],
  );
});

operation('service: reached by the URL of its Sprite', async t => {
  const sprite = await t.box('services-url');
  await sprite.filesystem('/home/sprite').writeFile('page.txt', 'served');
  await create(sprite, 'web', { ...SERVE, ...port(t, 8080) }, '500ms');
  const url = new URL('page.txt', (await t.client.getSprite(sprite.name)).url);
  // Names below `localhost` are the loopback's; not every resolver knows that.
  assert.match(url.hostname, /\.localhost$/);
  const get = authorization =>
    new Promise((resolve, reject) => {
      const headers = { host: url.host, ...(authorization && { authorization }) };
      const request = httpGet({ host: '127.0.0.1', port: url.port, path: url.pathname, headers }, async response => {
        resolve([response.statusCode, Buffer.concat(await Array.fromAsync(response)).toString()]);
      });
      request.on('error', reject);
    });
  await eventually(async () => (await get(`Bearer ${t.token}`))[1] === 'served', 'the page');
  assert([401, 403].includes((await get())[0]));
  assert([401, 403].includes((await get('Bearer wrong'))[0]));
  await sprite.updateURLSettings({ auth: 'public' });
  assert.deepEqual(await get(), [200, 'served']);
});
