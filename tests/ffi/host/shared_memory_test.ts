import { host } from "../../../ffi/runtime/host.ts";
import { assert, assertEquals } from "@std/assert";
import {
  createSharedMemory,
  openSharedMemory,
  sleepAtWord,
  unlinkSharedMemory,
} from "../../../ffi/host/shared_memory.ts";

/** The first one opens the C library, which stays open. */
const options = { ignore: Deno.build.os !== "linux", sanitizeResources: false };

Deno.test("SharedMemory is one for all who map it, also with its name gone", { ...options }, () => {
  const name = `netcl-${crypto.randomUUID()}`;
  using mine = createSharedMemory(name, 5000)!;
  assertEquals(createSharedMemory(name, 5000), null, "a name is taken once");
  using other = openSharedMemory(name, 5000)!;
  unlinkSharedMemory(name);
  mine.bytes[4999] = 7;
  assertEquals([other.bytes.length, other.bytes[4999]], [5000, 7]);
  assertEquals(openSharedMemory(name, 5000), null);
});

Deno.test("SharedMemory that does not fit is refused, and leaves no name", { ...options }, () => {
  const name = `netcl-${crypto.randomUUID()}`;
  assertEquals(createSharedMemory(name, 2 ** 50), null);
  assertEquals(openSharedMemory(name, 1), null);
});

const wakeSource = `
  import { openSharedMemory, wakeAtWord } from "${new URL(
  "../../../ffi/host/shared_memory.ts",
  import.meta.url,
)}";
  self.onmessage = ({ data: name }) => {
    const { bytes } = openSharedMemory(name, 64), word = new Int32Array(bytes.buffer, 8, 1);
    self.postMessage("ready");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    Atomics.add(word, 0, 1);
    wakeAtWord(word);
  };
`;

Deno.test(
  "sleepAtWord is woken by who maps the memory elsewhere, and returns at once where the word changed",
  { ...options },
  async () => {
    const name = `netcl-${crypto.randomUUID()}`;
    using mine = createSharedMemory(name, 64)!;
    const word = new Int32Array(mine.bytes.buffer, 8, 1);
    const slept = (value: number, milliseconds: number): number => {
      const start = performance.now();
      assert(sleepAtWord(word, value, milliseconds));
      return performance.now() - start;
    };
    assert(slept(0, 30) >= 29);
    assert(slept(1, 900) < 450);
    const url = URL.createObjectURL(new Blob([wakeSource], { type: "text/javascript" }));
    const worker = new Worker(url, { type: "module" });
    const ready = new Promise((resolve) => worker.onmessage = resolve);
    worker.postMessage(name);
    await ready;
    const ms = slept(0, 990);
    assert(ms < 900 && word[0] === 1, `${ms} ms`);
    unlinkSharedMemory(name);
    worker.terminate();
    URL.revokeObjectURL(url);
  },
);

Deno.test("SharedMemory: the C library is opened once, however much memory is mapped", {
  ...options,
}, () => {
  const { dlopen } = host;
  let count = 0;
  Object.assign(host, {
    dlopen: (...call: Parameters<typeof dlopen>) => (count++, dlopen(...call)),
  });
  try {
    for (let k = 0; k < 3; k++) {
      const name = `netcl-${crypto.randomUUID()}`;
      using _mine = createSharedMemory(name, 64)!;
      using _other = openSharedMemory(name, 64)!;
      unlinkSharedMemory(name);
    }
  } finally {
    Object.assign(host, { dlopen });
  }
  assert(count <= 1, `${count} times`);
});
