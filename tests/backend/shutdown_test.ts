// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
import { assertEquals } from "@std/assert";
import { manager } from "../../backend/devices/devices.ts";
import { hasOpenCL, testOpenCL } from "../opencl.ts";
import { inProcess, moduleAt } from "./child.ts";

/** Makes everything that a backend makes: blocks, staging memory, a queue's marks. */
const use = `
  function use(device) {
    const backend = backendOf(device);
    const block = backend.memory.allocate(4096);
    backend.write(block, new Uint8Array(4096).fill(3));
    const into = new Uint8Array(4096);
    backend.readSync(block, into);
    if (into[4095] !== 3) throw new Error("wrong bytes");
    return backend;
  }`;

testOpenCL("shutdown leaves no object of OpenCL, and can be called again", async () => {
  const { out, err } = await inProcess(`${use}
    use(manager.default("cl"));
    use(manager.default("cpu"));
    console.log(live() > 0);
    await shutdown();
    console.log(live(), manager.opened().length);
    await shutdown();
    console.log(live());`);
  assertEquals([out, err], ["true\n0 0\n0\n", ""]);
});

testOpenCL("shutdown ends the pinned and the persistent pool of a device", async () => {
  const { out, err } = await inProcess(`
    import { getPersistentPool, getPinnedPool } from "${moduleAt("memory/mod.ts")}";
    const { queue } = manager.default("cl");
    getPinnedPool(queue).allocate(8 << 20).release();
    getPersistentPool(queue).allocate(8 << 20).release();
    await shutdown();
    console.log(live());`);
  assertEquals([out, err], ["0\n", ""]);
});

testOpenCL("shutdown: a device that is asked for after shutdown starts afresh", async () => {
  const { out, err } = await inProcess(`${use}
    const before = use(manager.default("cl"));
    await shutdown();
    const after = use(manager.default("cl"));
    console.log(before === after, manager.default("cl").isOpen);
    await shutdown();
    console.log(live());`);
  assertEquals([out, err], ["false true\n0\n", ""]);
});

testOpenCL("shutdown waits for what was enqueued", async () => {
  const { out, err } = await inProcess(`
    import { busyDevice } from "${moduleAt("tests/signals/busy.ts")}";
    const busy = busyDevice(manager.default("cl"))(300);
    await shutdown();
    console.log(busy.status);`);
  assertEquals([out, err], ["complete\n", ""]);
});

testOpenCL("shutdown frees the rest when a queue fails, and tells", async () => {
  const { out, err } = await inProcess(`${use}
    use(manager.default("cl"));
    await withFaults([{ call: "clFinish", nth: 1, status: -2 }], async () => {
      try { await shutdown(); } catch (error) { console.log(error.codeName); }
    });
    console.log(live(), manager.opened().length);`);
  assertEquals([out, err], ["CL_DEVICE_NOT_AVAILABLE\n0 0\n", ""]);
});

Deno.test("shutdown: after shutdown Ctrl+C has its default action", {
  ignore: !hasOpenCL || Deno.build.os === "windows",
}, async () => {
  const { code, err } = await inProcess(`${use}
      use(manager.default("cl"));
      await shutdown();
      Deno.kill(Deno.pid, "SIGINT");
      await new Promise((resolve) => setTimeout(resolve, 5000));
      console.error("survived");`);
  assertEquals([code, err], [130, ""]);
});

Deno.test("shutdown without any device does nothing", async () => {
  const { out, err, code } = await inProcess("await shutdown(); console.log(live());");
  assertEquals([out, err, code], ["0\n", "", 0]);
});

Deno.test("shutdown: PoCL's own counts agree that nothing lives after shutdown", {
  ignore: !hasOpenCL || manager.default("cl").platformName !== "Portable Computing Language",
}, async () => {
  const path = await Deno.makeTempFile();
  const { out } = await inProcess(
    `${use}
      use(manager.default("cl"));
      await shutdown();
      const pause = () => new Promise((resolve) => setTimeout(resolve, 2)), end = Date.now() + 20_000;
      const counts = () => Deno.readTextFileSync("${path}").match(/\\w+:? \\n-?\\d+\\n/g) ?? [];
      // Any thread may take the signal, and those of PoCL release what they ended with a little later.
      let living;
      do {
        const before = counts().length;
        Deno.kill(Deno.pid, "SIGUSR2");
        while (counts().length < before + 9 && Date.now() < end) await pause();
        living = counts().slice(before).map((count) => count.match(/-?\\w+/g))
          // PoCL 3.1 counts the releases of sub-buffers, but not their creation.
          .filter(([kind, count]) => BigInt.asIntN(64, BigInt(count)) > 0n ||
            kind !== "Buffers" && count !== "0");
      } while (living.length > 0 && Date.now() < end);
      console.log(counts().length >= 9, JSON.stringify(living));`,
    { POCL_SIGUSR2_HANDLER: "1" },
    ["sh", "-c", `exec "$@" 2>${path}`, "sh"],
  );
  const err = await Deno.readTextFile(path);
  await Deno.remove(path);
  assertEquals(out, "true []\n", err);
});

for (const name of ["cl", "cpu"]) {
  Deno.test(`shutdown on "${name}" lets pending reads end, twice at once as well`, {
    ignore: name === "cl" && !hasOpenCL,
  }, async () => {
    const { out, err, code } = await inProcess(`
        import { Tensor } from "${moduleAt("mod.ts")}";
        for (let round = 0; round < 2; round++) {
          const a = Tensor.rand([200, 200], { device: "${name}" });
          await a.sum().item();
          const reads = [a.matmul(a).toHost(), a.add(1).toHost()];
          await Promise.all([shutdown(), shutdown()]);
          await shutdown();
          console.log(...(await Promise.all(reads)).map(({ length }) => length), live());
        }`);
    assertEquals([out, err, code], ["40000 40000 0\n40000 40000 0\n", "", 0]);
  });

  Deno.test(`reads on "${name}" that begin beside a shutdown have their values`, {
    ignore: name === "cl" && !hasOpenCL,
  }, async () => {
    const { out, err, code } = await inProcess(`
        import { Tensor } from "${moduleAt("mod.ts")}";
        const ones = (n) => Tensor.ones([n], { device: "${name}" });
        const end = [ones(3).toHost(), shutdown(), ones(2).toHost(), ones(4).sum().item()];
        console.log(...(await Promise.all(end)).map(String));
        console.log(await ones(2).sum().item());`);
    assertEquals([out, err, code], ["1,1,1 undefined 1,1 4\n2\n", "", 0]);
  });
}

Deno.test("shutdown: what shutdown ended says so in every operation, and what is made later works", async () => {
  const { out, err, code } = await inProcess(`
    import { compile, DisposedError, nn, optim, Tensor, withDevice } from "${moduleAt("mod.ts")}";
    for (const name of ${JSON.stringify(hasOpenCL ? ["cl", "cpu"] : ["cpu"])}) {
      await withDevice(name, async () => {
        const x = Tensor.rand([2, 2]).realize(), view = x.slice([0, 1]), sum = x.add(1);
        const assigned = Tensor.rand([2]).realize();
        assigned.assign(assigned.add(1));
        const model = new nn.Linear(2, 2), optimizer = new optim.Adam(model.parameters());
        model.forward(x).sum().backward();
        const twice = compile((x) => x.mul(2).sum());
        for (let k = 0; k < 2; k++) await twice(Tensor.ones([2])).item();
        await shutdown();
        const uses = {
          read: () => x.toHost(),
          readSync: () => x.toHostSync(),
          view: () => view.toHost(),
          lazy: () => sum.toHost(),
          compute: () => x.matmul(x).toHost(),
          assigned: () => assigned.toHost(),
          print: () => x.print(),
          compiled: () => twice(x),
          step: () => optimizer.step(),
        };
        for (const [use, fn] of Object.entries(uses)) {
          try {
            await fn();
            console.log(use, "went on");
          } catch (error) {
            const isClear = error instanceof DisposedError && error.message.includes("shutdown()");
            if (!isClear) console.log(use, error);
          }
        }
        console.log(await twice(Tensor.ones([2])).item(), await Tensor.ones([3]).sum().item());
      });
    }`);
  assertEquals([out, err, code], [hasOpenCL ? "4 3\n4 3\n" : "4 3\n", "", 0]);
});

testOpenCL("shutdown in a worker and in the main program are each other's no concern", async () => {
  const worker = `
    import { shutdown, Tensor } from "${moduleAt("mod.ts")}";
    const a = Tensor.ones([64, 64], { device: "cl" });
    const sum = await a.sum().item();
    await shutdown();
    await shutdown();
    postMessage(sum);`;
  const { out, err, code } = await inProcess(`
    import { Tensor } from "${moduleAt("mod.ts")}";
    const a = Tensor.ones([64, 64], { device: "cl" }).realize();
    const url = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(worker)}`)};
    const worker = new Worker(url, { type: "module" });
    console.log(await new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data)));
    worker.terminate();
    console.log(await a.sum().item());
    await shutdown();
    console.log(live());`);
  assertEquals([out, err, code], ["4096\n4096\n0\n", "", 0]);
});
