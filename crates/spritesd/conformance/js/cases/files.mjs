// Files, as node:fs/promises would have them.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

import { absent, eventually, operation, rejected } from '../harness.mjs';

/** A new folder for one case, as the working directory. */
async function folder(t, name) {
  const box = await t.box('files');
  await box.filesystem('/home/sprite').mkdir(name, { recursive: true });
  return box.filesystem(`/home/sprite/${name}`);
}

const inside = async (t, script) => (await t.sh(await t.box('files'), script)).stdout;

operation('files: bytes exact, 1 MB each way', async t => {
  const fs = await folder(t, 'exact');
  const files = {
    empty: Buffer.alloc(0),
    every: Buffer.from(Array.from({ length: 768 }, (_, n) => n % 256)),
    large: randomBytes((1 << 20) + 17),
    'sp ace ünï 🦀 %41 & ? # + =': Buffer.from('\r\n\0'),
  };
  for (const [name, data] of Object.entries(files)) {
    await fs.writeFile(name, data);
    assert((await fs.readFile(name, null)).equals(data), name);
    assert.equal((await fs.stat(name)).size, data.length);
  }
  // Written anew, not over it.
  await fs.writeFile('every', 'short');
  assert.equal(await fs.readFile('every', 'utf8'), 'short');
  assert.equal(await inside(t, 'cat exact/every'), 'short');
});

operation('files: text and JSON', async t => {
  const fs = await folder(t, 'text');
  await fs.writeFile('a.txt', 'grüße\n');
  assert.equal(await fs.readFile('a.txt', 'utf8'), 'grüße\n');
  await fs.writeJSON('a.json', { ü: [1, null] }, { spaces: 2 });
  assert.deepEqual(await fs.readJSON('a.json'), { ü: [1, null] });
  assert.equal(await fs.readFile('a.json', 'utf8'), '{\n  "ü": [\n    1,\n    null\n  ]\n}');
});

operation('files: modes', async t => {
  const fs = await folder(t, 'modes');
  for (const mode of [0o644, 0o600, 0o755, 0o777]) {
    await fs.writeFile(mode.toString(8), 'x', { mode });
    assert.equal((await fs.stat(mode.toString(8))).mode, mode);
  }
  await fs.writeFile('default', 'x');
  assert.equal((await fs.stat('default')).mode, 0o644);
  assert.equal(await inside(t, 'stat -c "%a %U" modes/600'), '600 sprite\n');
});

operation('files: append and touch', async t => {
  const fs = await folder(t, 'append');
  await fs.appendFile('log', 'one\n');
  await fs.appendFile('log', Buffer.from('two\n'));
  assert.equal(await fs.readFile('log', 'utf8'), 'one\ntwo\n');
  assert.equal((await rejected(fs.appendFile('/home/sprite/append', 'x'))).code, 'EISDIR');
});

operation('files: make directories', async t => {
  const fs = await folder(t, 'mkdir');
  await fs.mkdir('a/b/c', { recursive: true });
  assert.deepEqual(await fs.readdir('a/b/c'), []);
  await fs.writeFile('x/y/file', '1');
  assert.deepEqual(await fs.readdir('x'), ['y']);
  await fs.mkdir('plain');
  await fs.mkdir('plain');
  assert.equal((await rejected(fs.mkdir('x/y/file'))).code, 'ENOTDIR');
  await fs.mkdir('no/parent', { mode: 0o700 });
  assert.equal(await inside(t, 'stat -c %a mkdir/no/parent'), '755\n');
  return '`mkdir` without `recursive` makes parents, too, is no error where there is one, and sets no `mode`.';
});

operation('files: list a directory', async t => {
  const fs = await folder(t, 'listing');
  for (const name of ['b.txt', 'a', '.hidden', 'ü', 'sub/inner.txt']) await fs.writeFile(name, '');
  await inside(t, 'ln -s a listing/link');
  assert.deepEqual((await fs.readdir('.')).sort(), ['.hidden', 'a', 'b.txt', 'link', 'sub', 'ü']);
  const kinds = (await fs.readdir('.', { withFileTypes: true })).map(e => [
    e.name,
    e.isFile(),
    e.isDirectory(),
    e.isSymbolicLink(),
  ]);
  assert.deepEqual(kinds.filter(([name]) => ['a', 'sub', 'link'].includes(name)).sort(), [
    ['a', true, false, false],
    ['link', false, false, true],
    ['sub', false, true, false],
  ]);
  assert.equal((await fs.readdir('.', { withFileTypes: true }))[0].parentPath, '.');
  assert.equal((await rejected(fs.readdir('none'))).code, 'ENOENT');
  if (t.old) return;
  assert.deepEqual((await fs.readdir('.', { recursive: true })).sort(), [
    '.hidden',
    'a',
    'b.txt',
    'inner.txt',
    'link',
    'sub',
    'ü',
  ]);
  assert.deepEqual(await fs.readdir('.', { pattern: '*.txt' }), ['b.txt']);
  assert.deepEqual((await fs.readdir('.', { pattern: '*.txt', recursive: true })).sort(), ['b.txt', 'inner.txt']);
});

operation('files: stat a file', async t => {
  const fs = await folder(t, 'stat');
  await fs.writeFile('file', '12345', { mode: 0o640 });
  const got = await fs.stat('file');
  assert.deepEqual(
    [got.size, got.mode, got.isFile(), got.isDirectory(), got.isSymbolicLink()],
    [5, 0o640, true, false, false],
  );
  assert(Math.abs(Date.now() - got.mtime) < 60_000);
  assert.equal((await rejected(fs.stat('none'))).code, 'ENOENT');
});

operation('files: stat a directory', async t => {
  const fs = await folder(t, 'statdir');
  await fs.mkdir('empty');
  await fs.writeFile('filled/child', '123');
  await fs.writeFile('nested/child/file', '');
  // The SDK lists the path and takes the first entry for it.
  assert.equal((await rejected(fs.stat('empty'))).code, 'ENOENT');
  assert.equal(await fs.exists('empty'), false);
  const filled = await fs.stat('filled');
  assert.deepEqual([filled.size, filled.isDirectory(), filled.isFile()], [3, false, true]);
  assert.equal((await fs.stat('nested')).isDirectory(), true);
  return '`stat` and `exists` of a directory tell of its first entry; an empty one does not exist.';
});

operation('files: exists and kinds', async t => {
  const fs = await folder(t, 'kinds');
  await fs.writeFile('dir/file', '1');
  assert.deepEqual([await fs.exists('dir/file'), await fs.exists('dir'), await fs.exists('none')], [true, true, false]);
  const error = await rejected(t.client.sprite(t.name('ghost')).filesystem().exists('/x'));
  assert.equal(error.code, 'UNKNOWN');
});

operation('files: rename and replace', async t => {
  const fs = await folder(t, 'rename');
  await fs.writeFile('old', '1');
  await fs.rename('old', 'new');
  assert.deepEqual([await fs.readFile('new', 'utf8'), await fs.exists('old')], ['1', false]);
  await fs.writeFile('taken', '2');
  await fs.rename('new', '/home/sprite/rename/taken');
  assert.deepEqual([await fs.readFile('taken', 'utf8'), await fs.readdir('.')], ['1', ['taken']]);
  await fs.writeFile('dir/file', '3');
  await fs.rename('dir', 'moved');
  assert.equal(await fs.readFile('moved/file', 'utf8'), '3');
  assert.equal((await rejected(fs.rename('none', 'x'))).code, 'ENOENT');
});

operation('files: copy', async t => {
  const fs = await folder(t, 'copy');
  await fs.writeFile('a', '1', { mode: 0o600 });
  await fs.copyFile('a', 'b');
  assert.deepEqual([await fs.readFile('b', 'utf8'), await fs.readFile('a', 'utf8')], ['1', '1']);
  await fs.writeFile('dir/deep/file', '2');
  await fs.copyFile('dir', 'twin', { recursive: true });
  assert.equal(await fs.readFile('twin/deep/file', 'utf8'), '2');
  assert.equal((await rejected(fs.copyFile('dir', 'flat'))).code, 'EISDIR');
  assert.equal((await rejected(fs.copyFile('none', 'x'))).code, 'ENOENT');
  if (t.old) return;
  await inside(t, 'touch -d 2001-02-03T04:05:06Z copy/a');
  await fs.copyFile('a', 'kept', { preserveAttrs: true });
  const kept = await fs.stat('kept');
  assert.deepEqual([kept.mode, kept.mtime.toISOString()], [0o600, '2001-02-03T04:05:06.000Z']);
});

operation('files: chmod', async t => {
  const fs = await folder(t, 'chmod');
  await fs.writeFile('dir/file', '#!/bin/sh\necho ran\n');
  await fs.chmod('dir/file', 0o755);
  assert.equal(await inside(t, 'chmod/dir/file'), 'ran\n');
  await fs.chmod('dir', 0o700, { recursive: true });
  assert.equal(await inside(t, 'stat -c %a chmod/dir chmod/dir/file'), '700\n700\n');
  assert.equal((await rejected(fs.chmod('none', 0o600))).code, 'ENOENT');
});

operation('files: chown', async t => {
  if (t.old) return absent([t.sdk.SpriteFilesystem.prototype, 'chown']);
  const fs = await folder(t, 'chown');
  await fs.writeFile('dir/file', '');
  await fs.chown('dir', { uid: 'sprite', gid: 'sprite', recursive: true });
  await fs.chown('dir/file', { uid: 1000 });
  assert.equal(await inside(t, 'stat -c "%U %G" chown/dir/file'), 'sprite sprite\n');
  assert.equal((await rejected(fs.chown('none', { uid: 1000 }))).code, 'ENOENT');
  assert.equal((await rejected(fs.chown('dir', {}))).name, 'TypeError');
  assert.equal((await rejected(fs.chown('dir', { uid: 'nobody-of-that-name' }))).code, 'EINVAL');
});

operation('files: remove', async t => {
  const fs = await folder(t, 'remove');
  await fs.writeFile('file', '');
  await fs.rm('file');
  assert.equal((await rejected(fs.rm('file'))).code, 'ENOENT');
  await fs.rm('file', { force: true });
  await fs.writeFile('tree/deep/file', '');
  assert.equal((await rejected(fs.rm('tree'))).code, 'ENOTEMPTY');
  await fs.rm('tree', { recursive: true });
  await fs.mkdir('empty');
  await fs.rm('empty');
  assert.deepEqual(await fs.readdir('.'), []);
});

operation('files: errors by type', async t => {
  const fs = await folder(t, 'errors');
  await fs.writeFile('file', '');
  await fs.writeFile('dir/file', '');
  const error = await rejected(fs.readFile('none', 'utf8'));
  assert.deepEqual([error.name, error.code, error.syscall], ['FilesystemError', 'ENOENT', 'read']);
  assert.match(error.path, /none$/);
  if (!t.old) assert(error instanceof t.sdk.FilesystemError);
  assert.equal((await rejected(fs.readFile('dir', null))).code, 'EISDIR');
  assert.equal((await rejected(fs.writeFile('dir', ''))).code, 'EISDIR');
  assert.equal((await rejected(fs.writeFile('file/below', ''))).code, 'ENOTDIR');
  assert.equal((await rejected(fs.rm('dir'))).code, 'ENOTEMPTY');
  await inside(t, 'chmod 0 errors/file');
  assert.equal((await rejected(fs.readFile('file', null))).code, 'EACCES');
});

operation('files: paths and the working directory', async t => {
  const fs = await folder(t, 'paths');
  await fs.writeFile('sub/../file', '1');
  assert.equal(await fs.readFile('/home/sprite/paths/file', 'utf8'), '1');
  const root = (await t.box('files')).filesystem();
  assert.equal(await root.readFile('home/sprite/paths/file', 'utf8'), '1');
  assert((await root.readdir('/')).includes('home'));
});

operation('files: watch', async t => {
  if (t.old) return absent([t.sdk.SpriteFilesystem.prototype, 'watch']);
  const fs = await folder(t, 'watch');
  await fs.mkdir('deep');
  const watcher = await fs.watch('.', { recursive: true });
  assert(watcher instanceof t.sdk.FilesystemWatcher);
  assert.equal((await watcher.next()).type, 'subscribed');
  const seen = [];
  const until = async (event, end) => {
    for (;;) {
      const found = seen.find(e => e.event === event && e.path.endsWith(end));
      if (found) return found;
      seen.push(await watcher.next());
    }
  };
  await fs.writeFile('deep/file', '12345');
  await until('create', 'deep/file');
  assert.deepEqual((({ type, size, isDir }) => ({ type, size, isDir }))(await until('write', 'deep/file')), {
    type: 'event',
    size: 5,
    isDir: false,
  });
  await fs.chmod('deep/file', 0o600);
  await until('chmod', 'deep/file');
  await fs.rename('deep/file', 'deep/new');
  await until('rename', 'deep/file');
  await fs.rm('deep/new');
  await until('remove', 'deep/new');
  watcher.close();
  assert(watcher.isClosed());
  assert.equal(await eventually(async () => (await watcher.next()) ?? 'end', 'the end'), 'end');
  // One path of several, as an iterable.
  const other = await fs.watch(['deep', '/tmp']);
  for await (const { type } of other) {
    assert.equal(type, 'subscribed');
    break;
  }
  const wrong = await fs.watch('none');
  assert.equal((await wrong.next()).type, 'error');
  wrong.close();
});
