// The cases of one version of the JavaScript SDK: `main.mjs FOLDER VERSION`, then parts of names to run only those.

import { Session } from 'node:inspector/promises';
import { pathToFileURL } from 'node:url';

import { Suite, runAll, tell } from './harness.mjs';

const [folder, version, ...only] = process.argv.slice(2);

// Which functions of the SDK are called is seen by the engine, so that the SDK stays as it is.
const engine = new Session();
engine.connect();
await engine.post('Profiler.enable');
await engine.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const sdk = await import(pathToFileURL(`${folder}/dist/index.js`));
const suite = new Suite(sdk, version);
suite.engine = engine;

for (const part of [
  'lifecycle',
  'errors',
  'commands',
  'terminal',
  'sessions',
  'control',
  'files',
  'policies',
  'checkpoints',
  'services',
  'ports',
]) {
  await import(`./cases/${part}.mjs`);
}
// What the SDK throws where nobody can catch it fails the suite, but ends no other case.
process.on('uncaughtException', error => tell('the suite itself', 'fail', `uncaught: ${error.stack}`, Date.now()));
const { NAME } = await import('./cases/completeness.mjs');
await runAll(suite, NAME, only);
process.exit(0);
