// The published JavaScript SDK as a user uses it. $OSB_JS says where it is installed. Every public method is wrapped, and
// counted when it returns; what there is to count is read from the prototypes and the package's own declarations.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

const dir = path.join(process.env.OSB_JS, "node_modules/@alibaba-group/opensandbox");
const sdk = await import(pathToFileURL(path.join(dir, "dist/index.js")));
const { ConnectionConfig, Sandbox, SandboxApiException, SandboxManager, SandboxReadyTimeoutException } = sdk;
const declared = fs.readdirSync(path.join(dir, "dist")).filter((f) => f.endsWith(".d.ts"))
  .map((f) => fs.readFileSync(path.join(dir, "dist", f), "utf8")).join("\n");
const image = process.env.OSB_IMAGE ?? "host";
const resource = { cpu: "1", memory: "256Mi" };

// ---- counting ----

const methods = new Set(), worked = new Set(), refused = {};

function count(label, fn) {
  const failed = (e) => {
    if (e?.statusCode) refused[label] = e.statusCode;
    throw e;
  };
  return function (...args) {
    let got;
    try {
      got = fn.apply(this, args);
    } catch (e) {
      failed(e);
    }
    if (typeof got?.then !== "function") {
      worked.add(label);
      return got;
    }
    return got.then((v) => (worked.add(label), v), failed);
  };
}

function instrument(label, target) {
  for (const name of Object.getOwnPropertyNames(target)) {
    const d = Object.getOwnPropertyDescriptor(target, name);
    // Private ones are there, too, once compiled: the declarations know which are meant for users.
    if (["constructor", "length", "name", "prototype"].includes(name) || name.startsWith("_") || typeof d.value !== "function") continue;
    if (!new RegExp(`^\\s+(static )?${name}\\??(<[^(]*>)?\\(`, "m").test(declared)) continue;
    methods.add(`${label}.${name}`);
    Object.defineProperty(target, name, { ...d, value: count(`${label}.${name}`, d.value) });
  }
}

for (const [name, cls] of Object.entries({ Sandbox, SandboxManager, ConnectionConfig })) {
  instrument(name, cls);
  instrument(`${name}#`, cls.prototype);
}
const seen = new Set();
function instrumentServices(s) {
  for (const name of ["sandboxes", "commands", "files", "health", "metrics", "isolation", "credentialVault"]) {
    const proto = Object.getPrototypeOf(s[name]);
    if (!seen.has(proto)) {
      seen.add(proto);
      instrument(name, proto);
    }
  }
}
after(() => {
  if (process.env.OSB_RECORD) {
    fs.writeFileSync(process.env.OSB_RECORD, JSON.stringify({ methods: [...methods], worked: [...worked], refused }));
  }
});

// ---- helpers ----

function config(more = {}) {
  return new ConnectionConfig({ domain: process.env.OSB_DOMAIN, protocol: "http", apiKey: process.env.OSB_KEY, requestTimeoutSeconds: 120,
    disableMetrics: true, ...more });
}

async function create(more = {}) {
  const s = await Sandbox.create({ connectionConfig: config(more.connection), ...(more.snapshotId ? {} : { image }), resource, readyTimeoutSeconds: 120, ...more });
  instrumentServices(s);
  return s;
}

async function destroy(s) {
  await s.kill();
  await s.close();
}

const text = (messages) => messages.map((m) => m.text.replace(/\n$/, "")).join("\n");

async function until(what, fn, seconds = 120) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await fn();
    if (value) return value;
    assert.ok(Date.now() < end, what);
    await new Promise((r) => setTimeout(r, 50));
  }
}

// The daemon inside and the sidecar echo a request's id; the server gives one to a request that has none.
const inside = (status) => (e) => e instanceof SandboxApiException && e.statusCode === status;
const refuses = (status) => (e) => inside(status)(e) && !!e.requestId;

// ---- one sandbox, reached both ways ----

const manager = SandboxManager.create({ connectionConfig: config() });
const shared = {};
before(async () => {
  for (const way of ["direct", "proxy"]) {
    shared[way] = await create({ connection: { useServerProxy: way === "proxy" }, env: { GREETING: "hello" }, metadata: { suite: "js", way },
      timeoutSeconds: 600 });
  }
});
after(async () => {
  for (const s of Object.values(shared)) await destroy(s);
  await manager.close();
});

test("both module systems", () => {
  const cjs = createRequire(import.meta.url)(path.join(dir, "dist/cjs/index.cjs"));
  assert.equal(typeof cjs.Sandbox.create, "function");
});

for (const way of ["direct", "proxy"]) {
  test(`info and endpoints, ${way}`, async () => {
    const s = shared[way];
    const info = await s.getInfo();
    assert.equal(info.id, s.id);
    assert.equal(info.status.state, "Running");
    assert.ok(info.expiresAt > info.createdAt && info.metadata.way === way);
    assert.ok((await s.isHealthy()) && (await s.health.ping()));
    await s.waitUntilReady({ readyTimeoutSeconds: 60, pollingIntervalMillis: 100 });
    const endpoint = await s.getEndpoint(44772);
    const url = await s.getEndpointUrl(44772);
    assert.ok(url.endsWith(endpoint.endpoint));
    assert.equal((await fetch(`${url}/ping`, { headers: endpoint.headers })).status, 200);
    assert.ok(s.connectionConfig.getBaseUrl().endsWith("/v1"));
  });

  test(`commands, ${way}`, async () => {
    const c = shared[way].commands;
    const got = await c.run("echo out; echo err >&2; echo $GREETING; exit 3");
    assert.equal(text(got.logs.stdout), "out\nhello");
    assert.equal(text(got.logs.stderr), "err");
    assert.equal(got.exitCode, 3);
    const opts = await c.run("pwd; echo $A; id -u; id -g", { workingDirectory: "/tmp", envs: { A: "b" }, uid: 1234, gid: 1235 });
    assert.equal(text(opts.logs.stdout), "/tmp\nb\n1234\n1235");
    assert.ok((await c.run("sleep 600", { timeoutSeconds: 1 })).error);
    const types = [];
    for await (const e of c.runStream("echo a; echo b >&2")) types.push(e.type);
    assert.equal(types[0], "init");
    assert.equal(types.at(-1), "execution_complete");
    assert.ok(types.includes("stdout") && types.includes("stderr"));
    const events = [];
    await c.run("echo x", undefined, { onInit: () => events.push("init"), onStdout: () => events.push("stdout"), onExecutionComplete: () => events.push("complete") });
    assert.deepEqual(events, ["init", "stdout", "complete"]);
  });

  test(`background, logs, interrupt, ${way}`, async () => {
    const c = shared[way].commands;
    const { id } = await c.run("echo one; sleep 0.3; echo two; exit 5", { background: true });
    const status = await until("its end", async () => { const s = await c.getCommandStatus(id); return s.running === false && s; });
    assert.equal(status.exitCode, 5);
    const logs = await c.getBackgroundCommandLogs(id);
    assert.deepEqual(logs.content.split(/\s+/).filter(Boolean), ["one", "two"]);
    assert.equal((await c.getBackgroundCommandLogs(id, logs.cursor)).content, "");
    const slow = await c.run("sleep 1000", { background: true });
    await c.interrupt(slow.id);
    await until("its end", async () => (await c.getCommandStatus(slow.id)).running === false);
  });

  test(`sessions, ${way}`, async () => {
    const c = shared[way].commands;
    const id = await c.createSession({ workingDirectory: "/tmp" });
    await c.runInSession(id, "export X=kept; cd /etc");
    assert.equal(text((await c.runInSession(id, "echo $X; pwd")).logs.stdout), "kept\n/etc");
    assert.equal((await c.runInSession(id, "exit 4", { workingDirectory: "/tmp", timeoutSeconds: 60 })).exitCode, 4);
    await c.deleteSession(id);
    await assert.rejects(c.runInSession(id, "true"), SandboxApiException);
  });

  test(`files, ${way}`, async () => {
    const f = shared[way].files;
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    await f.createDirectories([{ path: "/tmp/j/e", mode: 755 }]);
    await f.writeFiles([{ path: "/tmp/j/a.txt", data: "alpha\nbeta\ngamma\n", mode: 644 }, { path: "/tmp/j/e/b.bin", data: bytes }]);
    assert.equal(await f.readFile("/tmp/j/a.txt"), "alpha\nbeta\ngamma\n");
    assert.equal((await f.readFile("/tmp/j/a.txt", { offset: 2, limit: 1 })).trim(), "beta");
    assert.deepEqual(await f.readBytes("/tmp/j/e/b.bin"), bytes);
    assert.deepEqual([...await f.readBytes("/tmp/j/e/b.bin", { range: "bytes=10-19" })], [...bytes.slice(10, 20)]);
    const parts = [];
    for await (const chunk of f.readBytesStream("/tmp/j/e/b.bin")) parts.push(...chunk);
    assert.deepEqual(parts, [...bytes]);
    await f.setPermissions([{ path: "/tmp/j/a.txt", mode: 600 }]);
    const info = (await f.getFileInfo(["/tmp/j/a.txt"]))["/tmp/j/a.txt"];
    assert.equal(info.size, 17);
    assert.equal(info.mode, 600);
    await f.replaceContents([{ path: "/tmp/j/a.txt", oldContent: "beta", newContent: "delta" }]);
    const replaced = await f.replaceContentsDetailed([{ path: "/tmp/j/a.txt", oldContent: "a", newContent: "A" }]);
    assert.equal(replaced[0].replacedCount, 5);
    await f.moveFiles([{ src: "/tmp/j/a.txt", dest: "/tmp/j/c.txt" }]);
    assert.deepEqual((await f.search({ path: "/tmp/j", pattern: "c*.txt" })).map((e) => e.path), ["/tmp/j/c.txt"]);
    const listed = (await f.listDirectory({ path: "/tmp/j", depth: 2 })).map((e) => e.path);
    assert.ok(listed.includes("/tmp/j/e/b.bin") && listed.includes("/tmp/j/c.txt"));
    await f.deleteFiles(["/tmp/j/c.txt"]);
    await f.deleteDirectories(["/tmp/j"]);
    await assert.rejects(f.readFile("/tmp/j/c.txt"), inside(404));
  });

  test(`metrics, metadata, renew, list, ${way}`, async () => {
    const s = shared[way];
    for (const m of [await s.getMetrics(), await s.metrics.getMetrics()]) {
      assert.ok(m.cpuCount > 0 && m.memoryUsedMiB > 0 && m.memoryUsedMiB <= m.memoryTotalMiB);
    }
    assert.equal((await s.patchMetadata({ color: "blue" })).metadata.color, "blue");
    assert.equal((await manager.patchSandboxMetadata(s.id, { color: null })).metadata.color, undefined);
    const { expiresAt } = await s.getInfo();
    assert.ok((await s.renew(1800)).expiresAt > expiresAt);
    await manager.renewSandbox(s.id, 3600);
    const page = await manager.listSandboxInfos({ states: ["Running"], metadata: { suite: "js", way }, page: 1, pageSize: 1 });
    assert.deepEqual(page.items.map((i) => i.id), [s.id]);
    assert.equal(page.pagination.totalItems, 1);
    assert.equal((await manager.getSandboxInfo(s.id)).id, s.id);
    assert.equal((await manager.listSandboxInfos({ metadata: { suite: "nobody" } })).items.length, 0);
  });
}

test("connect", async () => {
  const other = await Sandbox.connect({ sandboxId: shared.direct.id, connectionConfig: config(), readyTimeoutSeconds: 60 });
  assert.equal(text((await other.commands.run("echo again")).logs.stdout), "again");
  await other.close();
  await assert.rejects(Sandbox.connect({ sandboxId: shared.direct.id, connectionConfig: config(), readyTimeoutSeconds: 1, healthCheck: () => false }),
    SandboxReadyTimeoutException);
});

test("pause, resume, kill", async () => {
  let s = await create();
  const state = (wanted) => until(wanted, async () => (await manager.getSandboxInfo(s.id)).status.state === wanted);
  await s.pause();
  await state("Paused");
  const again = await s.resume({ readyTimeoutSeconds: 60 });
  assert.equal(text((await again.commands.run("echo back")).logs.stdout), "back");
  await manager.pauseSandbox(s.id);
  await state("Paused");
  const third = await Sandbox.resume({ sandboxId: s.id, connectionConfig: config(), readyTimeoutSeconds: 60 });
  await manager.pauseSandbox(s.id);
  await state("Paused");
  await manager.resumeSandbox(s.id);
  await state("Running");
  await manager.killSandbox(s.id);
  await assert.rejects(manager.getSandboxInfo(s.id), refuses(404));
  for (const c of [s, again, third]) await c.close();
  s = await create({ timeoutSeconds: null });
  assert.equal((await s.getInfo()).expiresAt, null);
  await destroy(s);
});

test("snapshots", async () => {
  const s = await create();
  await s.files.writeFiles([{ path: "/root/kept", data: "kept" }]);
  const snap = await manager.createSnapshot(s.id, { name: "js-one" });
  await until("Ready", async () => (await manager.getSnapshot(snap.id)).status.state === "Ready");
  assert.deepEqual((await manager.listSnapshots({ sandboxId: s.id, name: "js-one", states: ["Ready"] })).items.map((i) => i.id), [snap.id]);
  await destroy(s);
  const again = await create({ snapshotId: snap.id });
  assert.equal(await again.files.readFile("/root/kept"), "kept");
  await destroy(again);
  await manager.deleteSnapshot(snap.id);
  await assert.rejects(manager.getSnapshot(snap.id), refuses(404));
});

test("volumes", async () => {
  const s = await create({ volumes: [{ name: "data", mountPath: "/data", pvc: { claimName: "js-vol", createIfNotExists: true, deleteOnSandboxTermination: true } }] });
  assert.equal((await s.commands.run("echo x > /data/f && cat /data/f")).exitCode, 0);
  await destroy(s);
});

test("egress and vault", async () => {
  const s = await create({ networkPolicy: { defaultAction: "deny", egress: [{ action: "allow", target: "one.example.com" }] }, credentialProxy: { enabled: true } });
  await s.patchEgressRules([{ action: "allow", target: "two.example.com" }]);
  const targets = async () => (await s.getEgressPolicy()).egress.map((r) => r.target);
  assert.ok((await targets()).includes("two.example.com"));
  await s.deleteEgressRules(["one.example.com"]);
  assert.ok(!(await targets()).includes("one.example.com"));
  const v = s.credentialVault;
  const state = await v.create({ credentials: [{ name: "token", source: { type: "inline", value: "s3cret" } }],
    bindings: [{ name: "web", match: { hosts: ["two.example.com"], schemes: ["https"] }, auth: { type: "bearer", credential: "token" } }] });
  assert.equal(state.revision, 1);
  assert.equal((await v.get()).bindings[0].name, "web");
  assert.equal((await v.patch({ expectedRevision: 1, credentials: { add: [{ name: "other", source: { type: "inline", value: "x" } }] } })).revision, 2);
  await assert.rejects(v.patch({ expectedRevision: 1, credentials: { delete: ["other"] } }), inside(409));
  assert.equal((await v.listCredentials()).length, 2);
  assert.equal((await v.getCredential("token")).sourceType, "inline");
  assert.equal((await v.listBindings()).length, 1);
  assert.equal((await v.getBinding("web")).auth.type, "bearer");
  await v.delete();
  await assert.rejects(v.get(), SandboxApiException);
  await destroy(s);
});

test("the services underneath", async () => {
  const api = shared.direct.sandboxes;
  const made = await api.createSandbox({ image: { uri: image }, entrypoint: ["sleep", "600"], resourceLimits: resource, timeout: 600 });
  assert.equal((await api.getSandbox(made.id)).id, made.id);
  assert.ok((await api.listSandboxes({ pageSize: 100 })).items.some((i) => i.id === made.id));
  await api.patchSandboxMetadata(made.id, { a: "b" });
  await api.renewSandboxExpiration(made.id, { expiresAt: new Date(Date.now() + 900e3).toISOString() });
  assert.ok((await api.getSandboxEndpoint(made.id, 8000)).endpoint);
  api.invalidateEndpointCache(made.id);
  await api.pauseSandbox(made.id);
  await api.resumeSandbox(made.id);
  const snap = await api.createSnapshot(made.id, { name: "js-two" });
  await until("Ready", async () => (await api.getSnapshot(snap.id)).status.state === "Ready");
  assert.ok((await api.listSnapshots({ sandboxId: made.id })).items.length);
  await api.deleteSnapshot(snap.id);
  await api.deleteSandbox(made.id);
});

test("errors", async () => {
  await assert.rejects(manager.getSandboxInfo("no-such-sandbox"), (e) => e.statusCode === 404 && !!e.requestId && !!e.error.code);
  const named = SandboxManager.create({ connectionConfig: config({ headers: { "X-Request-ID": "mine-123" } }) });
  await assert.rejects(named.getSandboxInfo("no-such-sandbox"), (e) => e.requestId === "mine-123");
  await named.close();
  const wrong = SandboxManager.create({ connectionConfig: config({ apiKey: "wrong" }) });
  await assert.rejects(wrong.listSandboxInfos(), refuses(401));
  await wrong.close();
  await assert.rejects(create({ resource: { cpu: "plenty" } }), refuses(400));
});

test("what is not offered is refused", async () => {
  const s = shared.direct;
  await assert.rejects(s.getSignedEndpoint(8000, Math.floor(Date.now() / 1000) + 60), SandboxApiException);
  await assert.rejects(s.sandboxes.getSignedEndpoint(s.id, 8000, Math.floor(Date.now() / 1000) + 60), SandboxApiException);
  const request = { workspace: { path: "/tmp" } };
  const absent = /404/; // not an exception of the SDK's own there, just an Error that says so
  await assert.rejects(s.isolation.capabilities(), absent);
  await assert.rejects(s.isolation.list(), absent);
  await assert.rejects(s.isolation.attach("none"), absent);
  await assert.rejects(s.isolation.create(request), absent);
  await assert.rejects(s.isolation.runOnce("true", "/tmp"), absent);
  await assert.rejects(s.isolation.withSession(request, async () => {}), absent);
});
