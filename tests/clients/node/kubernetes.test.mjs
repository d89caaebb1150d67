// The JavaScript client of Kubernetes, as it comes from npm: objects, informers, exec, logs, apply, port-forward.
import assert from 'node:assert/strict';
import net from 'node:net';
import { PassThrough, Writable } from 'node:stream';
import { after, before, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';

const kc = new k8s.KubeConfig();
kc.loadFromDefault();
const core = kc.makeApiClient(k8s.CoreV1Api);
const custom = kc.makeApiClient(k8s.CustomObjectsApi);
const objects = k8s.KubernetesObjectApi.makeApiClient(kc);
const namespace = `node-${process.pid}`;
const sandboxes = { group: 'agents.x-k8s.io', version: 'v1beta1', namespace, plural: 'sandboxes' };

function sandbox(name, command = ['sleep', '1000']) {
  const container = { name: 'main', image: 'host', command };
  return {
    apiVersion: 'agents.x-k8s.io/v1beta1',
    kind: 'Sandbox',
    metadata: { name, namespace },
    spec: { podTemplate: { spec: { containers: [container] } } },
  };
}

function isReady(object) {
  return (object.status?.conditions ?? []).some((c) => c.type === 'Ready' && c.status === 'True');
}

// Resolves with the first object of an informer's event that fits.
function informed(informer, event, fits = () => true) {
  return new Promise((resolve) => {
    const listener = (object) => {
      if (fits(object)) {
        informer.off(event, listener);
        resolve(object);
      }
    };
    informer.on(event, listener);
  });
}

function sandboxInformer() {
  const path = `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes`;
  return k8s.makeInformer(kc, path, () => custom.listNamespacedCustomObject(sandboxes));
}

async function readySandbox(name, command) {
  const informer = sandboxInformer();
  const mine = (o) => o.metadata.name === name && isReady(o);
  const ready = Promise.race([informed(informer, 'update', mine), informed(informer, 'add', mine)]);
  await informer.start();
  await custom.createNamespacedCustomObject({ ...sandboxes, body: sandbox(name, command) });
  await ready;
  await informer.stop();
}

function collector() {
  const chunks = [];
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(chunk);
      done();
    },
  });
  stream.text = () => Buffer.concat(chunks).toString();
  return stream;
}

// Runs a command; {out, err, status}.
function exec(name, command, stdin = null, tty = false) {
  const out = collector();
  const err = collector();
  return new Promise((resolve, reject) => {
    new k8s.Exec(kc)
      .exec(namespace, name, 'main', command, out, err, stdin, tty, (status) =>
        resolve({ out: out.text(), err: err.text(), status }),
      )
      .catch(reject);
  });
}

before(async () => {
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  await readySandbox('shared');
});

after(async () => {
  await core.deleteNamespace({ name: namespace });
});

test('objects: create, read, replace, patch, conflict, list, delete', async () => {
  const body = { metadata: { name: 'one', labels: { a: 'b' } }, data: { k: '1' } };
  const made = await core.createNamespacedConfigMap({ namespace, body });
  assert.ok(made.metadata.uid && made.metadata.creationTimestamp instanceof Date);
  await assert.rejects(core.createNamespacedConfigMap({ namespace, body }), (e) => e.code === 409);
  made.data.k = '2';
  const replaced = await core.replaceNamespacedConfigMap({ name: 'one', namespace, body: made });
  assert.equal(replaced.data.k, '2');
  await assert.rejects(
    core.replaceNamespacedConfigMap({ name: 'one', namespace, body: made }),
    (e) => e.code === 409 && JSON.parse(e.body).reason === 'Conflict',
  );
  const patched = await core.patchNamespacedConfigMap(
    { name: 'one', namespace, body: [{ op: 'add', path: '/data/l', value: '3' }] },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch),
  );
  assert.deepEqual(patched.data, { k: '2', l: '3' });
  const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'a=b' });
  assert.deepEqual(list.items.map((i) => i.metadata.name), ['one']);
  await core.deleteNamespacedConfigMap({ name: 'one', namespace });
  await assert.rejects(core.readNamespacedConfigMap({ name: 'one', namespace }), (e) => e.code === 404);
});

test('server-side apply: two managers, a conflict, force', async () => {
  const spec = (value) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied', namespace }, data: { k: value } });
  const apply = (value, manager, force) =>
    objects.patch(spec(value), undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
  await apply('1', 'first');
  await assert.rejects(apply('2', 'second', false), (e) => e.code === 409);
  const forced = await apply('2', 'second', true);
  assert.equal(forced.data.k, '2');
  assert.ok(forced.metadata.managedFields.some((m) => m.manager === 'second' && m.operation === 'Apply'));
});

test('informer: existing objects, changes, deletion', async () => {
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'seen' }, data: { k: '1' } } });
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const informer = k8s.makeInformer(kc, path, () => core.listNamespacedConfigMap({ namespace }));
  const named = (name) => (o) => o.metadata.name === name;
  const first = informed(informer, 'add', named('seen'));
  await informer.start();
  await first;
  const added = informed(informer, 'add', named('later'));
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'later' }, data: { k: '1' } } });
  await added;
  const updated = informed(informer, 'update', (o) => o.metadata.name === 'later' && o.data.k === '2');
  await core.replaceNamespacedConfigMap({
    name: 'later', namespace, body: { metadata: { name: 'later' }, data: { k: '2' } },
  });
  await updated;
  const deleted = informed(informer, 'delete', named('later'));
  await core.deleteNamespacedConfigMap({ name: 'later', namespace });
  await deleted;
  assert.equal(informer.get('seen', namespace).data.k, '1');
  assert.equal(informer.get('later', namespace), undefined);
  await informer.stop();
});

test('exec: output, exit code, input, terminal', async () => {
  let r = await exec('shared', ['sh', '-c', 'echo out; echo err >&2; exit 3']);
  assert.deepEqual([r.out, r.err], ['out\n', 'err\n']);
  assert.equal(r.status.status, 'Failure');
  assert.equal(r.status.details.causes[0].message, '3');
  const stdin = new PassThrough();
  stdin.end('a\nb\nc\n');
  r = await exec('shared', ['head', '-n', '2'], stdin);
  assert.equal(r.out, 'a\nb\n');
  assert.equal(r.status.status, 'Success');
  r = await exec('shared', ['sh', '-c', 'test -t 1 && echo terminal'], null, true);
  assert.equal(r.out, 'terminal\r\n');
  r = await exec('shared', ['head', '-c', '3000000', '/dev/zero']);
  assert.equal(r.out.length, 3000000);
});

test('exec that cannot be: no such Pod', async () => {
  await assert.rejects(exec('nobody', ['true']));
});

test('logs: follow to the end', async () => {
  const pod = {
    metadata: { name: 'logger' },
    spec: {
      restartPolicy: 'Never',
      containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'for i in 1 2 3; do echo $i; sleep 0.2; done'] }],
    },
  };
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const informer = k8s.makeInformer(kc, path, () => core.listNamespacedPod({ namespace }));
  const started = informed(informer, 'update', (o) => o.metadata.name === 'logger' && o.status?.phase === 'Running');
  await informer.start();
  await core.createNamespacedPod({ namespace, body: pod });
  await started;
  await informer.stop();
  const out = collector();
  await new k8s.Log(kc).log(namespace, 'logger', 'main', out, { follow: true });
  await new Promise((resolve) => out.on('finish', resolve));
  assert.equal(out.text(), '1\n2\n3\n');
});

test('port-forward: a server in the sandbox', async () => {
  const server = ['python3', '-c', `
import socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
socketserver.ThreadingTCPServer(("127.0.0.1", 7007), H).serve_forever()`];
  await readySandbox('server', server);
  for (let up = false; !up; ) {
    const probe = 'import socket; socket.create_connection(("127.0.0.1", 7007))';
    up = (await exec('server', ['python3', '-c', probe])).status.status === 'Success';
  }
  const forward = new k8s.PortForward(kc);
  const listener = net.createServer((socket) => {
    forward.portForward(namespace, 'server', [7007], socket, null, socket);
  });
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const talk = (text) =>
    new Promise((resolve, reject) => {
      const socket = net.connect(listener.address().port, '127.0.0.1', () => socket.write(text));
      socket.once('data', (data) => {
        resolve(data.toString());
        socket.destroy();
      });
      socket.once('error', reject);
    });
  const answers = await Promise.all([1, 2, 3].map((i) => talk(`hello ${i}\n`)));
  assert.deepEqual(answers, ['HELLO 1\n', 'HELLO 2\n', 'HELLO 3\n']);
  listener.close();
});
