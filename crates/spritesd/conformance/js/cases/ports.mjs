// Ports of a Sprite: reached from here, and watched.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

import { Running, absent, operation, rejected } from '../harness.mjs';

const ECHO = `
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        # It is polite: the SDK may lose what comes at once when the connection stands.
        name = sys.argv[1].encode()
        while data := self.request.recv(65536):
            self.request.sendall(name + data)
            name = b''
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(('127.0.0.1', int(sys.argv[2])), Echo)
print('listening', flush=True)
server.serve_forever()
`;

/** A server in the Sprite: it answers its name and then all that it gets. */
async function serve(sprite, name, port) {
  const running = new Running(sprite.spawn('python3', ['-c', ECHO, name, String(port)]));
  await running.until('listening');
  return running;
}

/** Sends all through the address and gives all that comes back, until it is as long as it must be. */
function exchange(address, data, length) {
  return new Promise((resolve, reject) => {
    const chunks = [];
    const socket = connect(Number(address.split(':')[1]), 'localhost', () => socket.write(data));
    socket.on('data', chunk => {
      chunks.push(chunk);
      if (Buffer.concat(chunks).length >= length) socket.end();
    });
    socket.on('close', () => resolve(Buffer.concat(chunks)));
    socket.on('error', reject);
  });
}

operation('proxy one port', async t => {
  const sprite = await t.box('proxied');
  const server = await serve(sprite, 'one', 7001);
  const session = await sprite.proxyPort(0, 7001);
  assert(session instanceof t.sdk.ProxySession);
  const data = randomBytes(1 << 20);
  const [first, second] = await Promise.all([data, data].map(d => exchange(session.localAddr(), d, d.length + 3)));
  for (const got of [first, second]) {
    assert.equal(got.subarray(0, 3).toString(), 'one');
    assert(got.subarray(3).equals(data));
  }
  // Where nobody listens the connection ends without a byte.
  const nobody = await sprite.proxyPort(0, 7099, '127.0.0.1');
  assert.equal((await exchange(nobody.localAddr(), Buffer.from('x'), 1)).length, 0);
  const ended = session.wait();
  session.close();
  nobody.close();
  await ended;
  server.command.kill('SIGKILL');
  await server.exit;
});

operation('proxy several ports', async t => {
  const sprite = await t.box('proxied');
  const servers = [await serve(sprite, 'one', 7002), await serve(sprite, 'two', 7003)];
  const sessions = await sprite.proxyPorts([
    { localPort: 0, remotePort: 7002 },
    { localPort: 0, remotePort: 7003, remoteHost: '127.0.0.1' },
  ]);
  const greetings = await Promise.all(sessions.map(session => exchange(session.localAddr(), Buffer.from('x'), 4)));
  assert.deepEqual(greetings.map(String), ['onex', 'twox']);
  const manager = new t.sdk.ProxyManager();
  for (const session of sessions) manager.addSession(session);
  const all = manager.waitAll();
  manager.closeAll();
  await all;
  for (const session of await t.sdk.proxyPorts(t.client, sprite.name, [{ localPort: 0, remotePort: 7002 }]))
    session.close();
  (await t.sdk.proxyPort(t.client, sprite.name, 0, 7002)).close();
  for (const server of servers) {
    server.command.kill('SIGKILL');
    await server.exit;
  }
});

operation('watch ports', async t => {
  if (t.old) return absent([t.sdk.Sprite.prototype, 'watchPorts']);
  const sprite = await t.box('ports');
  const first = await serve(sprite, 'one', 7010);
  const watcher = await sprite.watchPorts();
  assert(watcher instanceof t.sdk.PortWatcher);
  const list = await watcher.next();
  assert.equal(list.type, 'port_list');
  assert.deepEqual(
    list.ports.map(port => port.port),
    [7010],
  );
  assert(list.ports[0].pid > 0 && list.ports[0].address);
  const second = await serve(sprite, 'two', 7011);
  const opened = await watcher.next();
  assert.deepEqual([opened.type, opened.port], ['port_opened', 7011]);
  assert(opened.pid > 0 && opened.address);
  first.command.kill('SIGKILL');
  await first.exit;
  const closed = await watcher.next();
  assert.deepEqual([closed.type, closed.port], ['port_closed', 7010]);
  watcher.close();
  assert(watcher.isClosed());
  // A Sprite that is restarted takes its connections with it.
  const other = await sprite.watchPorts();
  assert.deepEqual(
    (await other.next()).ports.map(port => port.port),
    [7011],
  );
  const broken = rejected(other.next());
  await sprite.restart();
  assert.match((await broken).message, /^WebSocket error: /);
  assert(other.isClosed());
  assert.equal(await second.exit, -1);
});
